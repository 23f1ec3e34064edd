"""The events that `status` shows for a job with problems."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from support.golden import Wording
from tfjob.controller.actions import RecordedEvent
from tfjob.jobs.explain import format_events, recent_warnings

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def event(reason: str, message: str, ago: int = 10, *, warning: bool = True, count: int = 1) -> RecordedEvent:
    time = NOW - timedelta(seconds=ago)
    return RecordedEvent(time, time, count, warning, reason, message)


def test_warnings_that_say_more_than_the_verdict_are_shown_the_newest_last(wording: Wording) -> None:
    events = [
        event("FailedMount", "worker-0: no such volume", 5, count=4),
        event("TFJobFailed", "it failed"),
        event("Pulled", "worker-0: pulled", warning=False),
        event("FailedScheduling", "worker-0: no node", 20),
    ]
    warnings = recent_warnings(events, None)
    assert [one.reason for one in warnings] == ["FailedScheduling", "FailedMount"]
    wording(*format_events(warnings, NOW))


def test_replicas_that_wait_for_the_same_are_shown_once() -> None:
    events = [event("FailedScheduling", f"worker-{number}: no node", number) for number in range(50)]
    assert [one.message for one in recent_warnings(events, None)] == ["worker-0: no node"]


def test_at_most_five_are_shown_and_none_of_an_earlier_attempt() -> None:
    events = [event("BackOff", f"worker-0: number {number}", 100 - number) for number in range(10)]
    assert [one.message[-1] for one in recent_warnings(events, None)] == ["5", "6", "7", "8", "9"]
    assert recent_warnings(events, NOW) == []


def test_a_long_message_is_cut() -> None:
    (line,) = format_events([event("FailedMount", "x" * 1000)], NOW)
    assert len(line) < 350
