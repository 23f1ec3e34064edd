"""Which pods and services to make and which to remove, so that the desired tasks run on their present attempt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from tfjob.api.names import child_name
from tfjob.api.objects import Pod
from tfjob.api.types import PARALLELISM, TFJob, TFJobStatus
from tfjob.plan.actions import Action, Create, Delete
from tfjob.plan.children import Settings, cluster_size, pod, service
from tfjob.plan.gangs import gang
from tfjob.plan.tasks import SIZE, Observed, View, attempt_due, attempt_of, desired, members, task_of


def reconcile(
    job: TFJob, status: TFJobStatus, views: Sequence[View], observed: Observed, now: datetime, settings: Settings
) -> list[Action]:
    """Removals of what is stale or surplus first, then what is missing.

    No pod of a gang is made while one of an older attempt exists: two generations would talk to each other.
    """
    stale = stale_pods(job, status, observed)
    removals = [
        Delete("Pod", child.metadata.name, child.metadata.uid)
        for child in stale
        if child.metadata.deletion_timestamp is None
    ]
    return [*removals, *_surplus_services(job, observed), *_missing(job, status, views, observed, stale, now, settings)]


def is_resized(job: TFJob, status: TFJobStatus, observed: Observed) -> bool:
    """Whether a gang runs with a TF_CONFIG for another size than the spec asks for now."""
    together, size = gang(job), cluster_size(job)
    stale = {child.metadata.uid for child in stale_pods(job, status, observed)}
    return any(
        task_of(child) in together and child.metadata.annotations.get(SIZE, size) != size
        for child in observed.pods
        if child.metadata.uid not in stale
    )


def stale_pods(job: TFJob, status: TFJobStatus, observed: Observed) -> list[Pod]:
    """Pods that must go: of an older attempt, or of a task that is no longer desired."""
    wanted = set(desired(job))
    # What a finished task leaves behind stays, so that its logs can be read.
    kept = members(status.completed_indexes)
    stale = []
    for child in observed.pods:
        task = task_of(child)
        if task not in wanted or (attempt_of(child) < attempt_due(status, task) and task not in kept):
            stale.append(child)
    return stale


def _surplus_services(job: TFJob, observed: Observed) -> Iterator[Delete]:
    wanted = {child_name(job, task.type, task.index) for task in desired(job)}
    for child in observed.services:
        if child.metadata.name not in wanted and child.metadata.deletion_timestamp is None:
            yield Delete("Service", child.metadata.name, child.metadata.uid)


def _missing(
    job: TFJob,
    status: TFJobStatus,
    views: Sequence[View],
    observed: Observed,
    stale: Sequence[Pod],
    now: datetime,
    settings: Settings,
) -> Iterator[Create]:
    pods = {child.metadata.name for child in observed.pods}
    services = {child.metadata.name for child in observed.services}
    together = gang(job)
    gang_waits = any(task_of(child) in together for child in stale)
    too_early = status.last_restart and status.last_restart.not_before and now < status.last_restart.not_before
    room = _room(job, views)
    for view in views:
        name = child_name(job, view.task.type, view.task.index)
        if not view.completed and name not in pods and not (too_early or (gang_waits and view.task in together)):
            if room == 0:
                continue
            room -= 1
            yield Create(pod(job, view.task, view.attempt, settings))
        if name not in services:
            yield Create(service(job, view.task))


def _room(job: TFJob, views: Sequence[View]) -> int:
    """How many more pods may run at once; only a converted batch/v1 Job is limited."""
    parallelism = job.metadata.annotations.get(PARALLELISM)
    if parallelism is None:
        return -1
    return max(0, int(parallelism) - sum(1 for view in views if view.pod and not view.completed))
