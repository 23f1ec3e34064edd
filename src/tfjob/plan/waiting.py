"""Why a job that should run does not yet: what to tell the user, and when waiting is pointless."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tfjob.api.objects import Pod
from tfjob.plan.tasks import Refusal, View

HOPELESS = frozenset({"InvalidImageName", "Invalid"})
"""Nothing but an edit can help: fail at once."""
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
"""Somebody may still create what is missing: fail after a grace."""


@dataclass(frozen=True)
class Wait:
    """One reason for waiting; `fails_at` is when it becomes final, None if never."""

    task: str
    reason: str
    message: str
    fails_at: datetime | None


def waits(views: Sequence[View], refusals: Mapping[str, Refusal], grace: timedelta) -> list[Wait]:
    """Every reason why tasks wait, the most final one first."""
    found = [wait for view in views if view.pod and (wait := _of_pod(view.task.name, view.pod, grace))]
    for name, refusal in refusals.items():
        found.append(_wait(name, refusal.reason, refusal.message, refusal.since, grace))
    return sorted(found, key=lambda wait: (wait.fails_at is None, wait.fails_at or datetime.max, wait.task))


def _of_pod(name: str, pod: Pod, grace: timedelta) -> Wait | None:
    since = pod.metadata.creation_timestamp
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = status.state.waiting
        if waiting and waiting.reason and waiting.reason not in ("ContainerCreating", "PodInitializing"):
            return _wait(name, waiting.reason, waiting.message, since, grace)
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return Wait(name, condition.reason or "Unschedulable", condition.message, None)
    if pod.status.phase in ("", "Pending") and pod.status.reason:
        return _wait(name, pod.status.reason, pod.status.message, since, grace)
    return None


def _wait(name: str, reason: str, message: str, since: datetime | None, grace: timedelta) -> Wait:
    if reason in HOPELESS and since:
        return Wait(name, reason, message, since)
    return Wait(name, reason, message, since + grace if reason in DOUBTFUL and since else None)
