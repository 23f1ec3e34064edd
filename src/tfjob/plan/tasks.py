"""The tasks of a job (`worker-0`), what is remembered of them, and how each one stands now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from tfjob.api.names import REPLICA_INDEX_LABEL, REPLICA_TYPE_LABEL, task_name
from tfjob.api.objects import ContainerStatus, ContainerTerminated, Pod, Service
from tfjob.api.types import CONTAINER_NAME, REPLICA_TYPES, TFJob, TFJobStatus
from tfjob.plan import indexes

ATTEMPT = "tfjob/attempt"
"""Annotation of a pod: the attempt of its task that it was made for."""
SIZE = "tfjob/cluster-size"
"""Annotation of a pod: the size of the cluster that its TF_CONFIG describes."""

CANONICAL_TYPE = {replica_type.lower(): replica_type for replica_type in REPLICA_TYPES}

INFRASTRUCTURE_REASONS = frozenset(
    {
        "ContainerStatusUnknown",
        "Evicted",
        "NodeAffinity",
        "NodeLost",
        "NodeShutdown",
        "OutOfcpu",
        "OutOfmemory",
        "OutOfpods",
        "Preempting",
        "Shutdown",
        "Terminated",
        "UnexpectedAdmissionError",
    }
)
"""Reasons of a failed pod that are no fault of the program in it."""


@dataclass(frozen=True, order=True)
class Task:
    """One replica of a job."""

    type: str
    index: int

    @property
    def name(self) -> str:
        """How people call it: `worker-0`."""
        return task_name(self.type, self.index)


@dataclass(frozen=True)
class Refusal:
    """A child that the cluster would not create: why, and since when."""

    reason: str
    message: str
    since: datetime


@dataclass(frozen=True)
class Observed:
    """The children of a job as the cluster shows them now."""

    pods: list[Pod] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    lost_nodes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class End:
    """How the main container of a task ended, or that its pod is gone (`infrastructure`, no exit code)."""

    time: datetime
    exit_code: int | None = None
    signal: int = 0
    reason: str = ""
    message: str = ""
    started: datetime | None = None
    infrastructure: bool = False

    @property
    def succeeded(self) -> bool:
        """Whether the task is done."""
        return self.exit_code == 0 and not self.infrastructure


@dataclass(frozen=True)
class View:
    """A task that should exist: its pod, if there is one of the present attempt, and its end, if it ended."""

    task: Task
    attempt: int
    pod: Pod | None = None
    end: End | None = None
    completed: bool = False

    @property
    def running(self) -> bool:
        """Whether its pod runs and nobody is deleting it."""
        return bool(self.pod and self.pod.status.phase == "Running" and not self.pod.metadata.deletion_timestamp)


def desired(job: TFJob) -> Iterator[Task]:
    """Every task that the spec asks for, in v1.9's order of types."""
    for replica_type in REPLICA_TYPES:
        replica = job.spec.tf_replica_specs.get(replica_type)
        for index in range(replicas_of(job, replica_type) if replica else 0):
            yield Task(replica_type, index)


def replicas_of(job: TFJob, replica_type: str) -> int:
    """How many tasks of a type the spec asks for; unset means one."""
    replica = job.spec.tf_replica_specs.get(replica_type)
    if replica is None:
        return 0
    return 1 if replica.replicas is None else replica.replicas


def task_of(pod: Pod) -> Task | None:
    """The task that a pod belongs to, by its labels."""
    replica_type = CANONICAL_TYPE.get(pod.metadata.labels.get(REPLICA_TYPE_LABEL, ""))
    index = pod.metadata.labels.get(REPLICA_INDEX_LABEL, "")
    return Task(replica_type, int(index)) if replica_type and index.isdigit() else None


def attempt_of(pod: Pod) -> int:
    """The attempt that a pod is on: the one it was made for, plus its restarts in place."""
    status = main_container(pod)
    return int(pod.metadata.annotations.get(ATTEMPT, "1")) + (status.restart_count if status else 0)


def attempt_due(status: TFJobStatus, task: Task) -> int:
    """The attempt that a task should be on; a pod on an older one is stale."""
    return max(status.attempt, 1) + status.task_restarts.get(task.name, 0)


def main_container(pod: Pod) -> ContainerStatus | None:
    """The container whose end is the task's end: the one called tensorflow, else the first."""
    statuses = pod.status.container_statuses
    return next((status for status in statuses if status.name == CONTAINER_NAME), statuses[0] if statuses else None)


def survey(job: TFJob, status: TFJobStatus, observed: Observed, now: datetime) -> list[View]:
    """How every desired task stands, in the light of what the status remembers."""
    pods = {task: pod for pod in observed.pods if (task := task_of(pod)) is not None}
    started, completed = members(status.started), members(status.completed_indexes)
    views = []
    for task in desired(job):
        view = View(task, attempt_due(status, task), pods.get(task), completed=task in completed)
        if not view.completed and view.pod is None and task in started:
            view = replace(view, end=End(now, reason="PodLost", message="its pod is gone", infrastructure=True))
        elif not view.completed and view.pod is not None:
            stale = attempt_of(view.pod) < view.attempt
            view = replace(view, pod=None) if stale else replace(view, end=_end(view.pod, observed.lost_nodes, now))
        views.append(view)
    return views


def _end(pod: Pod, lost_nodes: frozenset[str], now: datetime) -> End | None:
    status = main_container(pod)
    terminated = status.state.terminated if status else None
    if pod.metadata.deletion_timestamp is not None:
        return End(now, reason="PodDeleted", message="its pod is being deleted", infrastructure=True)
    if pod.spec.get("nodeName") in lost_nodes:
        return End(now, reason="NodeLost", message=f"node {pod.spec['nodeName']} is not ready", infrastructure=True)
    if pod.status.phase == "Failed" and (disruption := _disruption(pod)) is not None:
        return replace(end_of(terminated, now), reason=disruption[0], message=disruption[1], infrastructure=True)
    if terminated is None:
        # A pod can fail without its container ever having run, for example when the node turns it away.
        failed = pod.status.phase == "Failed"
        return End(now, reason=pod.status.reason or "PodFailed", message=pod.status.message) if failed else None
    if restarts_in_place(pod, terminated):
        return None
    return end_of(terminated, now)


def restarts_in_place(pod: Pod, terminated: ContainerTerminated) -> bool:
    """Whether the kubelet will start the container again, so that its end is not the task's end."""
    policy = pod.spec.get("restartPolicy", "Always")
    if pod.status.phase in ("Succeeded", "Failed"):
        return False
    return policy == "Always" or (policy == "OnFailure" and terminated.exit_code != 0)


def _disruption(pod: Pod) -> tuple[str, str] | None:
    for condition in pod.status.conditions:
        if condition.type == "DisruptionTarget" and condition.status == "True":
            return condition.reason or "Disrupted", condition.message
    if pod.status.reason in INFRASTRUCTURE_REASONS:
        return pod.status.reason, pod.status.message
    status = main_container(pod)
    if status and status.state.terminated and status.state.terminated.reason in INFRASTRUCTURE_REASONS:
        return status.state.terminated.reason, status.state.terminated.message
    return None


def end_of(terminated: ContainerTerminated | None, now: datetime) -> End:
    """A container's end as the end of its task; `now` stands in for a time that nobody reported."""
    if terminated is None:
        return End(now)
    return End(
        time=terminated.finished_at or now,
        exit_code=terminated.exit_code,
        signal=terminated.signal,
        reason=terminated.reason,
        message=terminated.message,
        started=terminated.started_at,
    )


def members(ranges: Mapping[str, str]) -> set[Task]:
    """The tasks that a status field such as `started` names."""
    return {Task(replica_type, index) for replica_type, text in ranges.items() for index in indexes.parse(text)}


def ranges(tasks: Iterable[Task]) -> dict[str, str]:
    """The status field that names `tasks`."""
    by_type: dict[str, set[int]] = {}
    for task in tasks:
        by_type.setdefault(task.type, set()).add(task.index)
    return {replica_type: indexes.render(by_type[replica_type]) for replica_type in sorted(by_type)}
