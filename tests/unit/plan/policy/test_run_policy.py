from __future__ import annotations

from support.plan.builders import at, job, status
from tfjob.plan.policy.run_policy import deadline, expiry, over_backoff_limit


def test_the_deadline_counts_from_the_start_time() -> None:
    limited = job(worker=1, run={"active_deadline_seconds": 60})
    assert deadline(limited, status()) == at(60)
    assert deadline(limited, status(start_time=None)) is None
    assert deadline(job(worker=1), status()) is None


def test_the_time_to_live_counts_from_the_completion_time() -> None:
    limited = job(worker=1, run={"ttl_seconds_after_finished": 30})
    assert expiry(limited, status(completion_time=at(10))) == at(40)
    assert expiry(job(worker=1, run={"ttl_seconds_after_finished": 0}), status(completion_time=at(10))) == at(10)
    assert expiry(limited, status()) is None
    assert expiry(job(worker=1), status(completion_time=at(10))) is None


def test_more_restarts_than_the_limit_are_too_many() -> None:
    limited = job(worker=1, run={"backoff_limit": 2})
    assert [over_backoff_limit(limited, status(retries=retries)) for retries in (1, 2, 3)] == [False, False, True]
    assert not over_backoff_limit(job(worker=1), status(retries=1000))
