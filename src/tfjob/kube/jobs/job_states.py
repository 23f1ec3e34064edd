"""How a job of a cluster stands as people should see it; pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tfjob.api.types import TFJob
from tfjob.jobs.backend import Record
from tfjob.plan.facts.conditions import SUSPENDED, is_finished
from tfjob.plan.policy.suspension import RESUMING
from tfjob.records.job_records import short_id

UNSEEN, SUSPENDING, TERMINATING = "NotSeen", "Suspending", "Terminating"
PATIENCE = timedelta(seconds=10)
"""How long a job may lie there before it is said that no operator looks at it."""
PENDING = "Pending"
BEGINNING = datetime.fromtimestamp(0, UTC)


def record(job: TFJob, now: datetime, *, current: bool = True, folder: Path | None = None, options: str = "") -> Record:
    """A job as a command shows it."""
    state = state_of(job)
    return Record(
        job=job,
        id=job.metadata.name if current else short_id(job),
        state=state,
        reason=_reason(job, state, now) if current else job.status.reason,
        created=job.metadata.creation_timestamp or BEGINNING,
        current=current,
        folder=str(folder) if folder else "",
        options=options,
        note=_note(job, now, options) if current else "",
    )


def state_of(job: TFJob) -> str:
    """The state that our operator writes, else what the conditions of another one say.

    What was resumed is Pending, though the operator may not have seen that yet.
    """
    true = [condition.type for condition in job.status.conditions if condition.status == "True"]
    state = job.status.state or next((name for name in reversed(true) if name != "Created"), PENDING)
    return PENDING if state == SUSPENDED and not job.spec.run_policy.suspend else state


def is_unseen(job: TFJob, now: datetime) -> bool:
    """Whether no operator has looked at a job for longer than it should take one."""
    status, made = job.status, job.metadata.creation_timestamp
    looked_at = status.state or status.conditions or is_elsewhere(job)
    return not looked_at and made is not None and now - made > PATIENCE


def is_elsewhere(job: TFJob) -> bool:
    """Whether the job belongs to another controller."""
    return job.spec.run_policy.managed_by not in (None, "", "kubeflow.org/training-operator")


def _note(job: TFJob, now: datetime, options: str) -> str:
    if is_elsewhere(job):
        return f"it is managed by {job.spec.run_policy.managed_by}"
    if is_unseen(job, now):
        return f"no operator has looked at it; is one running? tfjob doctor{options}"
    return ""


def _reason(job: TFJob, state: str, now: datetime) -> str:
    if job.metadata.deletion_timestamp is not None:
        return TERMINATING
    if is_unseen(job, now):
        return UNSEEN
    if job.spec.run_policy.suspend and state != SUSPENDED and not is_finished(job.status):
        return SUSPENDING
    if state == PENDING and job.status.state == SUSPENDED:
        return RESUMING
    return job.status.reason
