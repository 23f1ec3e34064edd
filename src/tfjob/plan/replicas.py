"""Which pods and services to create and to remove, so that the desired tasks run their current attempt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from datetime import datetime
from itertools import islice

from tfjob.api.objects import Pod, Service
from tfjob.api.types import PARALLELISM, PS, TFJob, TFJobStatus
from tfjob.controller.actions import Action, Create
from tfjob.controller.kind import Observation
from tfjob.plan.build.parameter_server import config_map, lacks_program
from tfjob.plan.build.pod_groups import Step
from tfjob.plan.build.pods import SIZE, cluster_size, pods, service
from tfjob.plan.build.settings import Pass
from tfjob.plan.facts.task_state import TaskState
from tfjob.plan.facts.tasks import Task, attempts_due, desired, gang_types, is_stale, members, task_of
from tfjob.plan.policy.backoff import held_back
from tfjob.plan.policy.cleanup import overdue, removals

PODS_A_PASS = 500
"""Each pod holds the addresses of all: more would exceed the operator's memory. The next pass creates the rest."""


def reconcile(
    this: Pass, status: TFJobStatus, views: Sequence[TaskState], stale: Sequence[Pod], group: Step
) -> tuple[list[Action], list[datetime]]:
    """Remove stale and surplus children, then create missing ones, a pod group before its pods.

    Also returns when to repeat deletions. Default parameter servers wait for the ConfigMap with their program. No pod
    of a gang is created while one of an older attempt exists: they would connect to each other.
    """
    job, observed, settings = this.job, this.observed, this.settings
    again, later = overdue(stale, observed, this.now, this.durations)
    wanted = set(desired(job))
    surplus = [child for child in observed.of(Service) if task_of(child) not in wanted]
    first = [*again, *removals([*stale, *surplus]), *group.actions]
    if group.hold:
        return first, later
    missing = _missing(job, views, observed, stale, held_back(job, status, this.now, this.durations))
    if lacks_program(job, observed):
        first.append(Create(config_map(job, settings.server_program)))
        missing = (view for view in missing if view.task.type != PS)
    made = pods(job, [(view.task, view.attempt) for view in islice(missing, PODS_A_PASS)], settings)
    served = {task_of(child) for child in observed.of(Service)}
    services = (service(job, view.task) for view in views if view.task not in served)
    return [*first, *map(Create, made), *map(Create, services)], later


def stale_pods(job: TFJob, status: TFJobStatus, observed: Observation) -> list[Pod]:
    """Return the pods to remove: those of an older attempt, or of a task that is no longer desired."""
    wanted, started = set(desired(job)), members(status.started)
    # The pod of a completed task stays, so that its logs can be read.
    kept, due = members(status.completed_indexes), attempts_due(job, status)

    def must_go(child: Pod) -> bool:
        task = task_of(child)
        if task is None or task not in wanted:
            return True
        return task not in kept and is_stale(child, task, due(task), started)

    return [child for child in observed.of(Pod) if must_go(child)]


def is_resized(job: TFJob, observed: Observation, stale: Sequence[Pod]) -> bool:
    """Return whether a gang runs with a TF_CONFIG for another size than the spec has now."""
    types = gang_types(job)
    if not types:
        return False
    size, leaving = cluster_size(job), {child.metadata.uid for child in stale}
    made_for = [
        child.metadata.annotations.get(SIZE)
        for child in observed.of(Pod)
        if child.metadata.uid not in leaving and (task := task_of(child)) and task.type in types
    ]
    return any(one not in (size, None) for one in made_for) or (None in made_for and _is_scaled(job, types))


def _is_scaled(job: TFJob, types: Set[str]) -> bool:
    """Return whether an edit changes the members of a gang; for pods of v1.9, which do not record their size."""
    before = job.status
    if before.observed_generation in (0, job.metadata.generation):
        return False
    wanted = {task for task in desired(job) if task.type in types}
    return wanted != {task for task in members(before.started) if task.type in types}


def _missing(
    job: TFJob, views: Sequence[TaskState], observed: Observation, stale: Sequence[Pod], waiting: Set[Task]
) -> Iterator[TaskState]:
    taken = {task_of(child) for child in observed.of(Pod)}
    types = gang_types(job)
    blocked = types if any((task := task_of(child)) and task.type in types for child in stale) else frozenset()
    room = _room(job, observed)
    for view in views:
        if room == 0:
            return
        if view.completed or view.task.type in blocked or view.task in waiting:
            continue
        if view.task not in taken:
            room -= 1
            yield view


def _room(job: TFJob, observed: Observation) -> int:
    """Return how many more pods may run; -1 means no limit. Only a converted batch/v1 Job has one."""
    parallelism = job.metadata.annotations.get(PARALLELISM)
    if parallelism is None or not parallelism.isdecimal():
        return -1
    at_work = sum(child.status.phase not in ("Succeeded", "Failed") for child in observed.of(Pod))
    return max(0, int(parallelism) - at_work)
