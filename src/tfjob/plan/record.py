"""What a status records between passes, so that a controller can be killed at any point: attempts, ends, restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from datetime import datetime, timedelta

from msgspec.structs import replace

from tfjob.api.dialect import origin
from tfjob.api.names import runtime_id
from tfjob.api.types import BackOff, Restart, TFJob, TFJobStatus, Verdict
from tfjob.durations import USUAL, Durations
from tfjob.plan import events
from tfjob.plan.build.settings import Pass
from tfjob.plan.facts import conditions
from tfjob.plan.facts.task_state import End, TaskState, end_of
from tfjob.plan.facts.tasks import GANG, TASK, Task, attempt_of, desired, gang_types, members, ranges, restarts_in_place
from tfjob.plan.policy import backoff
from tfjob.plan.policy.restarts import Again, settling_time
from tfjob.plan.policy.run_policy import is_stopped
from tfjob.plan.policy.success import exited_at_stop
from tfjob.plan.policy.verdict import verdict

OOM_NAMES = 64
"""How many OOM-killed replicas the status records; a replica that is forgotten may restart once more."""


def is_adopted(status: TFJobStatus) -> bool:
    """Return whether training-operator v1.9 wrote the status and we have not: it has conditions but no state."""
    return bool(status.conditions) and not status.state and status.attempt == 0


def adopted(job: TFJob) -> TFJob:
    """Treat a job that v1.9 started as ours: its pods, which have no attempt, belong to the first attempt."""
    return replace(job, status=replace(job.status, attempt=1)) if is_adopted(job.status) else job


def begin(job: TFJob, now: datetime) -> TFJobStatus:
    """Return the status at the start of a pass; the first pass and one after a suspension begin an attempt."""
    status = created(job, now)
    listed = status.conditions
    resumed = conditions.is_true(listed, conditions.SUSPENDED)
    if resumed:
        text, reason = events.about(job, events.IS_RESUMED), events.TFJOB_RESUMED
        listed = conditions.with_condition(listed, conditions.SUSPENDED, now, text, status="False", reason=reason)
    if origin(job).has_runtime_id and not status.runtime_id:
        status = replace(status, runtime_id=runtime_id(job))
    if status.attempt and not resumed:
        return status if status.start_time else replace(status, start_time=now)
    types = gang_types(job)
    alone = frozenset(task for task in desired(job) if types and task.type not in types)
    status = _runs_again(status, alone) if status.attempt else status
    # Tasks that completed in the old attempt run again too.
    status = replace(status, attempt=status.attempt + 1, started={}, completed_indexes={})
    return replace(status, conditions=listed, start_time=now, last_restart=None, back_off={})


def created(job: TFJob, now: datetime) -> TFJobStatus:
    """Return the status of a job that a pass has seen, whether or not it may start."""
    text = events.about(job, events.IS_CREATED)
    listed = job.status.conditions or conditions.with_condition([], conditions.CREATED, now, text)
    return replace(job.status, observed_generation=job.metadata.generation, conditions=listed)


def is_stopping(this: Pass) -> bool:
    """Return whether an earlier pass has stopped the job, and every exit of its replicas is seen.

    A replica that exits 0 now may not be done with its work, so one replica no longer decides. If all of them exit 0,
    nothing is left to continue.
    """
    has_begun = is_stopped(this.job) and this.job.status.state == conditions.SUSPENDED
    return has_begun and this.settings.reports_every_exit


def remember(this: Pass, status: TFJobStatus, views: Sequence[TaskState]) -> TFJobStatus:
    """Record what this pass sees for the first time: pods, completed tasks and restarts in place."""
    wanted = frozenset(desired(this.job))
    started, completed = members(status.started), members(status.completed_indexes)
    seen = {view.task for view in views if view.pod}
    done = {view.task for view in views if view.end and view.end.succeeded}
    if is_stopping(this):
        done |= exited_at_stop(this.job, views)
    if surplus := (started | completed) - wanted:
        # If the job is scaled up again, a pod that still terminates must not count as the new one.
        status = _runs_again(status, surplus)
    if not (seen <= started and done <= completed):
        started, completed = members(status.started) | seen, members(status.completed_indexes) | done
        status = replace(status, started=ranges(started), completed_indexes=ranges(completed))
    return _restarted_in_place(this, status, views)


def record(job: TFJob, status: TFJobStatus, again: Again, now: datetime, durations: Durations = USUAL) -> TFJobStatus:
    """Record a restart before any pod is deleted: which tasks restart, why, and when."""
    waits = backoff.after(job, status, again, now, durations)
    status = replace(_runs_again(status, again.tasks), back_off=waits)
    if again.gang:
        status = _new_gang(job, status)
    if not again.incident:
        return status
    own = waits.get(backoff.name_of(job, again.cause.replica), BackOff(restarts=1, not_before=now))
    failed = again.oom | ({again.cause.replica} if again.counted else set())
    others = [name for name in status.oom_killed if name not in failed]
    return replace(
        status,
        restarts=status.restarts + 1,
        retries=status.retries + again.counted,
        # The replicas whose latest failure was an OOM kill: the next one fails the job.
        oom_killed=[*others, *sorted(again.oom)][-OOM_NAMES:],
        last_restart=Restart(
            cause=again.cause,
            scope=GANG if again.gang else TASK,
            counted=again.counted > 0,
            streak=own.restarts - 1,
            time=now,
            not_before=own.not_before,
        ),
    )


def resized(job: TFJob, status: TFJobStatus, now: datetime) -> TFJobStatus:
    """Restart the gang because its TF_CONFIG has another number of replicas; this does not count as a failure."""
    cause = Verdict(reason=events.RESIZED, message=events.SIZE_CHANGED, time=now)
    last = status.last_restart or Restart()
    return replace(_new_gang(job, status), last_restart=replace(last, cause=cause, scope=GANG, counted=False, time=now))


def _new_gang(job: TFJob, status: TFJobStatus) -> TFJobStatus:
    """Restart all members of the gang, including those that completed."""
    types = gang_types(job)
    status = _forget(status, frozenset(task for task in desired(job) if task.type in types))
    return replace(status, attempt=status.attempt + 1)


def _runs_again(status: TFJobStatus, tasks: Set[Task]) -> TFJobStatus:
    """Count a restart of each of these tasks, and forget what its last pod did."""
    restarts = Counter(status.task_restarts)
    restarts.update(task.name for task in sorted(tasks))
    return replace(_forget(status, tasks), task_restarts=dict(restarts))


def _forget(status: TFJobStatus, tasks: Set[Task]) -> TFJobStatus:
    started, completed = members(status.started) - tasks, members(status.completed_indexes) - tasks
    return replace(status, started=ranges(started), completed_indexes=ranges(completed))


def _restarted_in_place(this: Pass, status: TFJobStatus, views: Sequence[TaskState]) -> TFJobStatus:
    """Count the restarts in place by the kubelet; ends close together are one incident."""
    news = []
    for view in views:
        if view.pod is None or view.completed:
            continue
        extra = attempt_of(view.pod) - view.attempt
        if extra > 0:
            news.append((end_of(view.last_end, this.now), view, extra, min(extra, restarts_in_place(view.pod))))
    if not news:
        return status
    news.sort(key=lambda item: (item[0].time, item[1].task))
    restarts, settling = dict(status.task_restarts), settling_time(this.job, this.durations)
    last, total, incidents, counted = status.last_restart, 0, 0, 0
    for end, view, extra, in_place in news:
        name = view.task.name
        restarts[name] = restarts.get(name, 0) + extra
        total += in_place
        if last and last.cause.replica != name and _follows(end, last.cause, settling):
            # The same incident: count only restarts beyond those of the other tasks.
            more = max(0, in_place - max(counted, 1))
        else:
            more, counted = in_place, 0
            cause = verdict(view.task, view.attempt + extra - 1, end)
            last = replace(last or Restart(scope=TASK), cause=cause, counted=True, time=this.now)
        counted += more
        incidents += more
    return replace(
        status,
        task_restarts=restarts,
        restarts=status.restarts + total,
        retries=status.retries + incidents,
        last_restart=last,
    )


def _follows(end: End, cause: Verdict, settling: timedelta) -> bool:
    """Return whether an end may be a consequence of a recorded one: soon after it, of a task that ran then."""
    if cause.time is None or (end.started and end.started > cause.time):
        return False
    return abs(end.time - cause.time) <= settling
