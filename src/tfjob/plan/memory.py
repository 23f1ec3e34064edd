"""What a status remembers between passes, so that a controller may die at any point: attempts, ends and restarts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from tfjob.api.types import Restart, TFJob, TFJobStatus
from tfjob.plan import conditions
from tfjob.plan.gangs import GANG, TASK, gang
from tfjob.plan.restarts import Again, wait_before
from tfjob.plan.tasks import View, attempt_due, attempt_of, desired, members, ranges


def begin(job: TFJob, now: datetime) -> TFJobStatus:
    """The status with which a pass starts: created on the first, a new attempt after a suspension."""
    status = replace(job.status, observed_generation=job.metadata.generation)
    name = job.metadata.name
    listed = status.conditions
    if not listed:
        listed = conditions.with_condition(listed, conditions.CREATED, now, f"TFJob {name} is created.")
    resumed = conditions.is_true(listed, conditions.SUSPENDED)
    if resumed:
        listed = conditions.with_condition(
            listed,
            conditions.SUSPENDED,
            now,
            f"TFJob {name} is resumed.",
            status="False",
            reason=conditions.RESUMED,
        )
    status = replace(status, conditions=listed)
    if status.start_time is None or status.attempt == 0 or resumed:
        return new_attempt(replace(status, start_time=now, last_restart=None))
    return status


def created(job: TFJob, now: datetime) -> TFJobStatus:
    """The status of a job that must not start yet."""
    listed = job.status.conditions or conditions.with_condition(
        [], conditions.CREATED, now, f"TFJob {job.metadata.name} is created."
    )
    return replace(job.status, observed_generation=job.metadata.generation, conditions=listed)


def new_attempt(status: TFJobStatus) -> TFJobStatus:
    """Everything runs again; what completed in the old attempt does not count in the new one."""
    return replace(status, attempt=status.attempt + 1, started={}, completed_indexes={})


def remember(job: TFJob, status: TFJobStatus, views: Sequence[View]) -> TFJobStatus:
    """Adds what this pass sees for the first time: pods that exist, tasks that are done, restarts in place."""
    wanted = set(desired(job))
    names = {task.name for task in wanted}
    started = (members(status.started) & wanted) | {view.task for view in views if view.pod}
    completed = (members(status.completed_indexes) & wanted) | {
        view.task for view in views if view.end and view.end.succeeded
    }
    restarts = {name: count for name, count in status.task_restarts.items() if name in names}
    in_place = 0
    for view in views:
        extra = attempt_of(view.pod) - attempt_due(status, view.task) if view.pod and not view.completed else 0
        if extra > 0:
            restarts[view.task.name] = restarts.get(view.task.name, 0) + extra
            in_place += extra
    return replace(
        status,
        started=ranges(started),
        completed_indexes=ranges(completed),
        task_restarts=restarts,
        restarts=status.restarts + in_place,
        retries=status.retries + in_place,
    )


def record(job: TFJob, status: TFJobStatus, again: Again, now: datetime) -> TFJobStatus:
    """Writes a restart down before anything is deleted: who runs again, why, and from when."""
    status = _record_oom(status, again)
    restarts = dict(status.task_restarts)
    for task in again.tasks:
        restarts[task.name] = restarts.get(task.name, 0) + 1
    rerun = again.tasks | (gang(job) if again.gang else frozenset())
    status = replace(
        status,
        attempt=status.attempt + (1 if again.gang else 0),
        task_restarts=restarts,
        started=ranges(members(status.started) - rerun),
        completed_indexes=ranges(members(status.completed_indexes) - rerun),
    )
    if not again.incident:
        return status
    streak, wait = wait_before(status, now)
    return replace(
        status,
        restarts=status.restarts + 1,
        retries=status.retries + (1 if again.counted else 0),
        last_restart=Restart(
            cause=again.cause,
            scope=GANG if again.gang else TASK,
            counted=again.counted,
            streak=streak,
            time=now,
            not_before=now + wait,
        ),
    )


def _record_oom(status: TFJobStatus, again: Again) -> TFJobStatus:
    """Keeps the replicas whose latest failure was an OOM kill: the next one in a row is final."""
    if not again.incident:
        return status
    others = [name for name in status.oom_killed if name != again.cause.replica]
    return replace(status, oom_killed=[*others, again.cause.replica] if again.oom else others)
