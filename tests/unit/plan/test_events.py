"""The messages of events and conditions."""

from __future__ import annotations

from datetime import timedelta

import pytest

from support.plan.builders import job
from tfjob.api.types import Verdict
from tfjob.controller.actions import Event
from tfjob.plan import events


def test_a_short_text_stays_and_a_long_one_is_cut_between_characters() -> None:
    assert events.shortened("é" * 10, 20) == "é" * 10
    assert events.shortened("é" * 11, 20) == "é" * 8 + "…"


@pytest.mark.parametrize("pause", [None, timedelta(seconds=20)])
def test_a_restart_in_place_says_when_and_how_often(pause: timedelta | None) -> None:
    event = events.restart_in_place(job(worker=1), "worker-0 exited 3", 2, pause, waits=True)
    assert event.warning
    assert "retry 2" in event.message
    assert ("20 s" in event.message) == (pause is not None)


@pytest.mark.parametrize(
    "event",
    [
        events.left_alone(job(worker=1), "x" * 5000),
        events.restart(job(worker=1), "x" * 5000, "worker-0"),
        events.failure("x", Verdict(advice="x" * 5000, last_lines=["x" * 5000])),
        events.ended(Verdict(exit_code=1, message="x", advice="x" * 5000)),
    ],
)
def test_no_event_is_longer_than_a_cluster_accepts(event: Event) -> None:
    assert len(event.message.encode()) <= events.EVENT_BYTES


def test_advice_comes_before_the_last_line_because_that_may_be_long() -> None:
    cause = Verdict(exit_code=1, message="worker-0 exited 1", advice="Do this.", last_lines=["x" * 5000])
    assert events.failure("It has failed.", cause).message.startswith("It has failed. Do this. Last line: xxx")
    assert events.ended(cause).message == "worker-0 exited 1. Do this."
