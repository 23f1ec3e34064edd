"""Why a job does not run yet: the reason for the user, and when to give up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tfjob.api.names import child_name
from tfjob.api.objects import Pod
from tfjob.api.types import TFJob
from tfjob.controller.kind import Observation
from tfjob.plan import events
from tfjob.plan.facts.task_state import TaskState, end_of
from tfjob.plan.facts.tasks import task_of
from tfjob.plan.policy.in_place import restarting
from tfjob.plan.policy.verdict import sentence

HOPELESS = frozenset({"InvalidImageName", "Invalid"})
"""Only an edit can help: fail at once."""
DOUBTFUL = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "Denied",
        "ErrImageNeverPull",
        "ErrImagePull",
        "FailedMount",
        "ImagePullBackOff",
    }
)
"""The missing object may still be created: fail after a grace period."""


@dataclass(frozen=True)
class Wait:
    """One reason for waiting; `fails_at` is when it fails the job, if ever. An empty task means the whole job."""

    task: str
    reason: str
    message: str
    fails_at: datetime | None

    @property
    def text(self) -> str:
        return ": ".join(filter(None, (self.task, self.message)))


def waits(
    job: TFJob,
    views: Sequence[TaskState],
    observed: Observation,
    leaving: Sequence[Pod],
    grace: timedelta,
    held: str = "",
) -> list[Wait]:
    """Return every reason why tasks wait, the one that fails the job first at the front.

    `leaving` are old pods that still occupy their names; `held` is why all pods wait for their PodGroup.
    """
    found = [
        # What prevents the creation of a pod is more important than what an existing pod waits for.
        *([Wait("", events.POD_GROUP_PENDING, held, None)] if held else ()),
        *_refused(job, views, observed, grace),
        # A pod on a node that does not answer cannot be removed: it may still run there.
        *(
            Wait(task.name, events.NODE_UNREACHABLE, events.POD_STUCK.format(pod=pod.metadata.name, node=node), None)
            for pod in leaving
            if (node := pod.spec.get("nodeName")) in observed.lost_nodes and (task := task_of(pod))
        ),
        *(wait for view in views if view.pod and not view.completed and (wait := _of_pod(view, view.pod, grace))),
    ]
    return sorted(found, key=lambda wait: (wait.fails_at is None, wait.fails_at or datetime.max))


def starting(views: Sequence[TaskState], observed: Observation) -> list[Wait]:
    """Return the first task that does not run for an unknown reason; not one whose end the job tolerates."""
    slow = next((view for view in views if not (view.up or view.completed or view.end)), None)
    if slow is None:
        return []
    old = slow.pod is None and any(task_of(child) == slow.task for child in observed.of(Pod))
    return [Wait(slow.task.name, events.STARTING, events.OLD_POD_EXISTS if old else events.NOT_STARTED, None)]


def _of_pod(view: TaskState, pod: Pod, grace: timedelta) -> Wait | None:
    name = view.task.name
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = status.state.waiting
        if waiting and waiting.reason == events.CRASH_LOOP and (again := restarting(view.task, status)):
            whose = "" if status == view.container else f"container {status.name} "
            return _wait(name, events.CRASH_LOOP, f"{whose}{again.what}; {again.next_start}", None, grace)
        if waiting and waiting.reason and waiting.reason not in ("ContainerCreating", "PodInitializing"):
            return _wait(name, waiting.reason, waiting.message, _waiting_since(view, pod), grace)
    main = view.container
    ended = (main.state.terminated or main.last_state.terminated) if main else None
    if view.running and not view.up and not view.end and ended:
        text = sentence(view.task, end_of(ended, datetime.max)).removeprefix(f"{name} ")
        return _wait(name, events.RESTARTED, f"{text}; it is restarting", None, grace)
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return _wait(name, condition.reason or events.UNSCHEDULABLE, condition.message, None, grace)
    if pod.status.phase in ("", "Pending") and pod.status.reason:
        return _wait(name, pod.status.reason, pod.status.message, _waiting_since(view, pod), grace)
    return None


def _waiting_since(view: TaskState, pod: Pod) -> datetime | None:
    """Return since when a node has tried to start the container: not counting the queue and earlier runs."""
    before = view.last_end
    times = (pod.metadata.creation_timestamp, pod.status.start_time, before.finished_at if before else None)
    return max((time for time in times if time), default=None)


def _refused(job: TFJob, views: Sequence[TaskState], observed: Observation, grace: timedelta) -> Iterator[Wait]:
    if not observed.rejections:
        return
    tasks = {child_name(job, view.task.type, view.task.index): view.task.name for view in views}
    for (kind, name), rejection in observed.rejections.items():
        if kind in ("ConfigMap", "PodGroup"):
            yield _wait("", rejection.reason, rejection.message, rejection.since, grace)
        elif name in tasks:
            yield _wait(tasks[name], rejection.reason, rejection.message, rejection.since, grace)


def _wait(name: str, reason: str, message: str, since: datetime | None, grace: timedelta) -> Wait:
    message = events.shortened(message)
    if reason in HOPELESS and since:
        return Wait(name, reason, message, since)
    return Wait(name, reason, message, since + grace if reason in DOUBTFUL and since else None)
