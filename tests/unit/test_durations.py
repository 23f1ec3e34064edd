"""Lengths that a test sets from outside."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from tfjob.durations import USUAL, VARIABLE, durations_from


def test_without_the_variable_the_usual_lengths_count() -> None:
    assert durations_from({}) is USUAL


def test_the_variable_changes_the_lengths_that_it_names_alone() -> None:
    found = durations_from({VARIABLE: '{"settle_gang": 0.5, "restart_waits": [0, 1]}'})
    assert found.settle_gang == timedelta(seconds=0.5)
    assert found.restart_waits == (timedelta(0), timedelta(seconds=1))
    assert found.settle_tasks == USUAL.settle_tasks


@pytest.mark.parametrize("text", ['{"settle_gnag": 1}', '{"settle_gang": "soon"}', "15"])
def test_a_length_that_does_not_exist_or_is_none_is_an_error(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        durations_from({VARIABLE: text})
