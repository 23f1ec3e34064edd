"""The durations of options."""

from __future__ import annotations

from datetime import timedelta

import click
import pytest

from tfjob.cli.context import time_span


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("1.5h", 5400), ("30d", 2592000), ("0", 0)])
def test_a_time_span_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert time_span(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "-1", "1y", "soon", "1 h", "nan", "inf", "\u0661s"])
def test_other_time_spans_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        time_span(text)


def test_a_very_long_time_span_is_a_hundred_years() -> None:
    assert time_span("999999999999w") == timedelta(days=36500)
