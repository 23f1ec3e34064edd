"""Tables, durations and sizes for users."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tfjob.jobs.report import size, span, table, took


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
