"""The limits of `runPolicy`: how long a job may run, how often it may restart, and how long it is kept afterwards."""

from __future__ import annotations

from datetime import datetime, timedelta

from tfjob.api.types import TFJob, TFJobStatus
from tfjob.plan.facts.conditions import FAILED, SUCCEEDED

LONGEST_SECONDS = 10**9
"""Thirty years: a larger number could exceed the range of datetime."""


def deadline(job: TFJob, status: TFJobStatus) -> datetime | None:
    seconds = job.spec.run_policy.active_deadline_seconds
    return _after(status.start_time, seconds) if seconds is not None and status.start_time else None


def expiry(job: TFJob, status: TFJobStatus) -> datetime | None:
    seconds = job.spec.run_policy.ttl_seconds_after_finished
    ended = _ended(status) if seconds is not None else None
    return _after(ended, seconds) if seconds is not None and ended else None


def _after(time: datetime, seconds: int) -> datetime:
    return time + timedelta(seconds=min(seconds, LONGEST_SECONDS))


def over_backoff_limit(job: TFJob, status: TFJobStatus) -> bool:
    """Return whether restarts in place, which the kubelet decides, have exceeded `backoffLimit`."""
    limit = job.spec.run_policy.backoff_limit
    return limit is not None and status.retries > limit


def _ended(status: TFJobStatus) -> datetime | None:
    """Return when a job ended; v1.9 does not always write a completion time, but always a condition."""
    if status.completion_time:
        return status.completion_time
    ends = [one for one in status.conditions if one.type in (SUCCEEDED, FAILED) and one.status == "True"]
    return min((one.last_transition_time for one in ends if one.last_transition_time), default=None)
