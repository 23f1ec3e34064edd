from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfjob.api import ranges

CASES = [
    ("", set()),
    ("0", {0}),
    ("0-2", {0, 1, 2}),
    ("0,2", {0, 2}),
    ("0-2,5", {0, 1, 2, 5}),
    ("3,7-9,11", {3, 7, 8, 9, 11}),
]


@pytest.mark.parametrize(("text", "named"), CASES)
def test_a_text_names_indexes_and_is_the_shortest_that_does(text: str, named: set[int]) -> None:
    assert ranges.parse(text) == named
    assert ranges.render(named) == text


@given(st.sets(st.integers(0, 2000)))
def test_rendering_loses_nothing(named: set[int]) -> None:
    assert ranges.parse(ranges.render(named)) == named


def test_a_thousand_indexes_in_a_row_are_a_few_characters() -> None:
    assert ranges.render(range(1000)) == "0-999"


@pytest.mark.parametrize("text", ["", "x", "1-", "-1", "9" * 50, "0-9999999999", "²", "1--2"])
def test_what_is_no_index_names_none(text: str) -> None:
    """A status may have been written by anybody."""
    assert ranges.parse(text) == set()
    assert ranges.parse(f"{text},3") == {3}
