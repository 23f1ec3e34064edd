"""The rules of `runPolicy`: how long a job may run, how often it may restart, when it expires, and `suspend`."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from tfjob.api.types import TFJob, TFJobStatus
from tfjob.controller.kind import STOPPED, SUSPEND_REASON
from tfjob.plan.facts.conditions import FAILED, SUCCEEDED

LONGEST_SECONDS = 10**9
"""Thirty years: a larger number could exceed the range of datetime."""
RESUMING = "Resuming"
"""The reason of a job that was resumed and has not started yet."""


def deadline(job: TFJob, status: TFJobStatus) -> datetime | None:
    return _after(status.start_time, job.spec.run_policy.active_deadline_seconds)


def expiry(job: TFJob, status: TFJobStatus) -> datetime | None:
    return _after(_ended(status), job.spec.run_policy.ttl_seconds_after_finished)


def over_backoff_limit(job: TFJob, status: TFJobStatus) -> bool:
    """Return whether restarts in place, which the kubelet decides, have exceeded `backoffLimit`."""
    limit = job.spec.run_policy.backoff_limit
    return limit is not None and status.retries > limit


def is_stopped(job: TFJob) -> bool:
    """Return whether a user has stopped the job with Ctrl-C or `tfjob stop`, and not suspended it in another way."""
    return job.spec.run_policy.suspend and job.metadata.annotations.get(SUSPEND_REASON) == STOPPED


def suspended(job: TFJob, reason: str) -> TFJob:
    return _with_suspend(job, {**job.metadata.annotations, SUSPEND_REASON: reason}, suspend=True)


def resumed(job: TFJob) -> TFJob:
    others = {key: value for key, value in job.metadata.annotations.items() if key != SUSPEND_REASON}
    return _with_suspend(job, others, suspend=False)


def _after(time: datetime | None, seconds: int | None) -> datetime | None:
    return time + timedelta(seconds=min(seconds, LONGEST_SECONDS)) if time and seconds is not None else None


def _ended(status: TFJobStatus) -> datetime | None:
    """Return when a job ended; v1.9 does not always write a completion time, but always a condition."""
    if status.completion_time:
        return status.completion_time
    ends = [one for one in status.conditions if one.type in (SUCCEEDED, FAILED) and one.status == "True"]
    return min((one.last_transition_time for one in ends if one.last_transition_time), default=None)


def _with_suspend(job: TFJob, annotations: dict[str, str], *, suspend: bool) -> TFJob:
    run_policy = replace(job.spec.run_policy, suspend=suspend)
    metadata = replace(job.metadata, annotations=annotations)
    return replace(job, metadata=metadata, spec=replace(job.spec, run_policy=run_policy))
