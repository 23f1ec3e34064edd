"""The state of every task of a job: its pod, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from tfjob.api.objects import ContainerStatus, ContainerTerminated, Pod
from tfjob.api.types import TFJob, TFJobStatus
from tfjob.controller.kind import Observation
from tfjob.plan import events
from tfjob.plan.facts.tasks import Task, attempts_due, desired, is_stale, main_container, members, policy_of, task_of

INFRASTRUCTURE_REASONS = frozenset(
    {
        "ContainerStatusUnknown",
        "Evicted",
        "NodeAffinity",
        "NodeLost",
        "NodeShutdown",
        "Preempting",
        "Shutdown",
        "Terminated",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
        "Unknown",
    }
)
"""Reasons of a failed pod that its program did not cause; so are `OutOfcpu` and similar reasons.

After a power loss containerd finds containers without processes: it reports `Unknown`, exit code 255 and the current
time. A program that exits with 255 has the reason `Error`.
"""


@dataclass(frozen=True)
class End:
    """How the main container of a task ended. Without an exit code and with `infrastructure`, its pod is lost.

    `premature` is an exit 0 of a task that should run as long as the job.
    """

    time: datetime
    exit_code: int | None = None
    signal: int = 0
    reason: str = ""
    message: str = ""
    started: datetime | None = None
    infrastructure: bool = False
    premature: bool = False

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0 and not self.infrastructure and not self.premature


@dataclass(frozen=True)
class TaskState:
    """A desired task, its pod if there is one of the current attempt, and its end if it has ended."""

    task: Task
    attempt: int
    pod: Pod | None = None
    end: End | None = None
    completed: bool = False

    @property
    def running(self) -> bool:
        """Whether its pod runs and is not being deleted."""
        return bool(self.pod and self.pod.status.phase == "Running" and not self.pod.metadata.deletion_timestamp)

    @property
    def container(self) -> ContainerStatus | None:
        return main_container(self.pod) if self.pod else None

    @property
    def up(self) -> bool:
        """Whether its program runs: a pod is also Running while its container waits for a restart."""
        container = self.container
        return self.running and not (container and (container.state.waiting or container.state.terminated))

    @property
    def last_end(self) -> ContainerTerminated | None:
        """How its main container ended before its last restart in place."""
        return self.container.last_state.terminated if self.container else None


def survey(job: TFJob, status: TFJobStatus, observed: Observation, now: datetime) -> list[TaskState]:
    pods = {task: pod for pod in observed.of(Pod) if (task := task_of(pod)) is not None}
    started, completed = members(status.started), members(status.completed_indexes)
    due_of = attempts_due(job, status)
    views = []
    for task in desired(job):
        pod, due, end = pods.get(task), due_of(task), None
        if task in completed:
            views.append(TaskState(task, due, pod, completed=True))
            continue
        if pod is not None and is_stale(pod, task, due, started):
            pod = None
        elif pod is not None:
            end = _end(pod, observed.lost_nodes, now)
            if end is not None and end.succeeded and policy_of(job, task) == "Always":
                end = replace(end, premature=True)
        elif task in started:
            end = End(now, reason=events.POD_LOST, message=events.POD_GONE, infrastructure=True)
        views.append(TaskState(task, due, pod, end))
    return views


def end_of(terminated: ContainerTerminated | None, now: datetime) -> End:
    """Return the end of a container as the end of its task; `now` replaces a missing time."""
    if terminated is None:
        return End(now)
    started = terminated.started_at
    return End(
        time=terminated.finished_at or now,
        exit_code=terminated.exit_code,
        signal=terminated.signal,
        reason=terminated.reason,
        message=terminated.message,
        # For a container that never ran, a kubelet reports a start in 1970.
        started=started if started and started.timestamp() > 0 else None,
    )


def is_over(pod: Pod) -> bool:
    """Return whether no container of a pod runs any more; a kubelet reports the containers before the pod."""
    if pod.status.phase in ("Succeeded", "Failed"):
        return True
    ends = [status.state.terminated for status in pod.status.container_statuses]
    return bool(ends) and all(end is not None and not _starts_again(pod, end) for end in ends)


def _end(pod: Pod, lost_nodes: frozenset[str], now: datetime) -> End | None:
    terminated = _terminated(pod)
    if pod.metadata.deletion_timestamp is not None:
        # Even an exit 0 is a loss: a program that is stopped may exit 0 before it is done.
        reason, message = _disruption(pod) or (events.POD_DELETED, events.POD_LEAVING)
        return End(now, reason=reason, message=message, infrastructure=True)
    failed = pod.status.phase == "Failed"
    # A kubelet reports the end of the container before the failure of the pod.
    ended = terminated is not None and not _starts_again(pod, terminated)
    if (
        (failed or ended)
        and (disruption := _disruption(pod)) is not None
        and not (terminated and terminated.exit_code == 0)
    ):
        return replace(end_of(terminated, now), reason=disruption[0], message=disruption[1], infrastructure=True)
    if terminated is not None:
        # The kubelet may report a pod that is over as Pending for a moment. Until it corrects that, clients that check
        # the phase, as v1.9's does at the end of a job, find no logs.
        reported_late = pod.status.phase == "Pending" and is_over(pod)
        return None if _starts_again(pod, terminated) or reported_late else end_of(terminated, now)
    if failed:
        # A pod can fail before its container has run, for example if the node rejects it.
        # The time must not change from pass to pass, or the failure would never settle.
        time = pod.status.start_time or pod.metadata.creation_timestamp or now
        return End(time, reason=pod.status.reason or events.POD_FAILED, message=pod.status.message)
    if (node := pod.spec.get("nodeName")) in lost_nodes:
        text = events.NODE_LOST.format(node=node)
        return End(now, reason=events.NODE_NOT_READY, message=text, infrastructure=True)
    return None


def _terminated(pod: Pod) -> ContainerTerminated | None:
    """Return the end of the main container, or of the failed init container if the pod failed before it ran."""
    status = main_container(pod)
    if status and status.state.terminated:
        return status.state.terminated
    if pod.status.phase != "Failed":
        return None
    ends = (status.state.terminated for status in pod.status.init_container_statuses)
    return next((end for end in ends if end and end.exit_code), None)


def _starts_again(pod: Pod, terminated: ContainerTerminated) -> bool:
    """Return whether the kubelet restarts the container, so that its end is not the task's end."""
    policy = pod.spec.get("restartPolicy", "Always")
    if pod.status.phase in ("Succeeded", "Failed"):
        return False
    return policy == "Always" or (policy == "OnFailure" and terminated.exit_code != 0)


def _disruption(pod: Pod) -> tuple[str, str] | None:
    for condition in pod.status.conditions:
        if condition.type == "DisruptionTarget" and condition.status == "True":
            return condition.reason or "Disrupted", condition.message
    container = main_container(pod)
    for end in (pod.status, container.state.terminated if container else None):
        if end and _is_infrastructure(end.reason):
            return end.reason, end.message
    return None


def _is_infrastructure(reason: str) -> bool:
    # The kubelet rejects a pod with `OutOf` and the name of the resource, which may be any device.
    return reason in INFRASTRUCTURE_REASONS or reason.startswith("OutOf")
