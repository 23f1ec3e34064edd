"""The readable part of a status: counts, `ready`, state, reason and message."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tfjob.api.types import REPLICA_TYPES, ReplicaStatus, TFJob, TFJobStatus
from tfjob.plan import events
from tfjob.plan.build.settings import Pass
from tfjob.plan.facts import conditions
from tfjob.plan.facts.task_state import TaskState
from tfjob.plan.policy.backoff import next_starts
from tfjob.plan.policy.pending import Wait
from tfjob.plan.policy.restarts import runs_again
from tfjob.plan.policy.success import deciding_types


def counted(job: TFJob, status: TFJobStatus, views: Sequence[TaskState]) -> TFJobStatus:
    """Set v1.9's counts per type and the `ready` text."""
    counts = {kind: [0, 0, 0] for kind in REPLICA_TYPES if kind in job.spec.tf_replica_specs}
    for view in views:
        ended = bool(view.end and not view.end.infrastructure) and not view.completed
        for column, holds in enumerate((view.running and not ended and not view.completed, view.completed, ended)):
            counts[view.task.type][column] += holds
    # v1.9 counts by the phase of a pod, which is also Running while its container waits for a restart.
    up = sum(view.completed or (view.up and not view.end) for view in views)
    return replace(
        status,
        ready=f"{up}/{len(views)}",
        replica_statuses={
            kind: ReplicaStatus(active=active, succeeded=succeeded, failed=failed)
            for kind, (active, succeeded, failed) in counts.items()
        },
    )


def described(this: Pass, status: TFJobStatus, views: Sequence[TaskState], waits: Sequence[Wait]) -> TFJobStatus:
    """Set the condition, state and message of a job that has not ended: Running, Restarting or Pending."""
    job, now = this.job, this.now
    restarting = conditions.is_true(status.conditions, conditions.RESTARTING)
    counts = status.replica_statuses
    active = any(counts[kind].active for kind in deciding_types(job) if kind in counts)
    again = runs_again(job, status)
    # A task that ended without being retried is one that the job tolerates.
    is_over = all(view.running or view.completed or view.end for view in views if view.task.name in again)
    if active and (not restarting or is_over):
        text = events.about(job, events.IS_RUNNING)
        listed = conditions.with_condition(status.conditions, conditions.RUNNING, now, text)
        status = replace(status, conditions=listed, state=conditions.RUNNING, reason="", message="")
    elif restarting:
        status = replace(status, state=conditions.RESTARTING, **_restart_words(this, status))
    elif conditions.is_true(status.conditions, conditions.RUNNING):
        status = replace(status, state=conditions.RUNNING, reason="", message="")
    else:
        status = replace(status, state="Pending", reason=events.STARTING, message="")
    known = waits and (waits[0].reason != events.STARTING or not status.reason)
    if known and not all(view.up or view.completed for view in views):
        status = replace(status, reason=waits[0].reason, message=waits[0].text)
    return _between_tries(job, status, views)


def _between_tries(job: TFJob, status: TFJobStatus, views: Sequence[TaskState]) -> TFJobStatus:
    """Set Restarting if all deciding replicas wait for a restart in place; v1.9's conditions say Running."""
    deciding = deciding_types(job)
    concerned = [view for view in views if view.task.type in deciding and not view.completed]
    if status.state != conditions.RUNNING or not concerned or any(view.up or not view.running for view in concerned):
        return status
    return replace(status, state=conditions.RESTARTING)


def _restart_words(this: Pass, status: TFJobStatus) -> dict[str, str]:
    last = status.last_restart
    if last is None:
        return {"reason": status.reason, "message": status.message}
    message = last.cause.message
    if starts := next_starts(this.job, status, this.now, this.durations):
        message += f"; {events.NEXT_START.format(at=starts[0])}"
    return {"reason": last.cause.reason, "message": message}
