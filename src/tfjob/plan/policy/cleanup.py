"""What a finished job keeps (`cleanPodPolicy`), and when to repeat a deletion.

The API server deletes a pod in two writes: it sets the deletion timestamp, then removes the object. If the client dies
in between, the request is canceled, and the pod stays until it is deleted again. On most clusters the pod garbage
collector does that, but the plan does not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from tfjob.api.objects import Object, Pod, PodGroup, Service
from tfjob.api.types import TFJob
from tfjob.controller.actions import Action, Delete
from tfjob.controller.kind import Observation
from tfjob.durations import Durations
from tfjob.plan.facts.task_state import is_over

RUNNING, ALL, NONE = "Running", "All", "None"


def cleanup(job: TFJob, observed: Observation) -> list[Action]:
    """Return the deletions: every pod (`All`), pods that have not ended (`Running`, the default), or none (`None`).

    A service goes with its pod. A pod group always goes: there is nothing left to schedule.
    """
    policy = job.spec.run_policy.clean_pod_policy or RUNNING
    if policy == NONE:
        return removals(observed.of(PodGroup))
    kept = {child.metadata.name for child in observed.of(Pod) if is_over(child)} if policy != ALL else set()
    children: list[Pod | Service] = [*observed.of(Pod), *observed.of(Service)]
    return removals([*(child for child in children if child.metadata.name not in kept), *observed.of(PodGroup)])


def everything(observed: Observation) -> list[Action]:
    return removals([*observed.of(Pod), *observed.of(Service), *observed.of(PodGroup)])


def overdue(
    pods: Iterable[Pod], observed: Observation, now: datetime, durations: Durations
) -> tuple[list[Action], list[datetime]]:
    """Return deletions to repeat, of pods that should be gone, and when each terminating pod is due next."""
    waits = durations.repeat_deletion
    repeated, times = list[Action](), list[datetime]()
    for pod in pods:
        metadata = pod.metadata
        gone_by = metadata.deletion_timestamp
        if gone_by is None:
            continue
        before = observed.repeated_deletions.get(metadata.uid)
        count, last = (before.count, before.last) if before else (0, gone_by)
        due = last + waits[min(count, len(waits) - 1)]
        if due <= now:
            repeated.append(Delete(pod.kind, metadata.name, metadata.uid, now - gone_by))
            due = now + waits[min(count + 1, len(waits) - 1)]
        times.append(due)
    return repeated, times


def removals(children: Sequence[Object]) -> list[Action]:
    return [
        Delete(child.kind, child.metadata.name, child.metadata.uid)
        for child in children
        if child.metadata.deletion_timestamp is None
    ]
