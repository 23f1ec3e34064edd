"""The last words about a run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click
import pytest
from msgspec.structs import replace

from support.golden import Wording
from support.plan.builders import T0, at, job
from tfjob.api.types import TFJobStatus, Verdict
from tfjob.jobs.backend import Record
from tfjob.jobs.report import ending, size, span, table, took

CASES = {
    "succeeded": (
        TFJobStatus(state="Succeeded", message="worker-0 exited 0", restarts=1),
        "1 restart",
    ),
    "failed, with a verdict": (
        TFJobStatus(state="Failed", failure=Verdict(replica="worker-0", message="worker-0 exited 3")),
        "exited 3",
    ),
    "failed, without one": (
        TFJobStatus(state="Failed", reason="InvalidTFJob", message="it has no replicas"),
        "InvalidTFJob",
    ),
    "failed, and nobody knows why": (TFJobStatus(state="Failed"), "mnist"),
    "stopped": (
        TFJobStatus(state="Suspended", reason="Stopped"),
        "tfjob resume mnist",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_ends_with_what_became_of_it(case: str, wording: Wording) -> None:
    status, keyword = CASES[case]
    made = job("mnist", worker=1, status=replace(status, completion_time=at(5)))
    record = Record(made, "mnist.1", status.state, status.reason, created=T0)
    shown = click.unstyle(ending(record))
    assert keyword in shown
    wording(shown)


# --- tables, time spans and sizes as people read them -----------------------------------------------------------------


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table(["A", "B"], [["long", "x"], ["y", "z"]]) == "A      B\nlong   x\ny      z"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59, "59s"), (192, "3m12s"), (7440, "2h4m"), (266400, "3d2h"), (3600, "1h")]
)
def test_a_span_has_at_most_two_units(seconds: int, text: str) -> None:
    assert span(timedelta(seconds=seconds)) == text


def test_a_short_time_has_a_decimal() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert took(start, start + timedelta(seconds=1.25)) == "1.2s"
    assert took(start, start + timedelta(seconds=61)) == "1m1s"


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (2048, "2.0 KiB"), (2**40, "1024.0 GiB")])
def test_sizes_have_a_unit(count: int, text: str) -> None:
    assert size(count) == text
