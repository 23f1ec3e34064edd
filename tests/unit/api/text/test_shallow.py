"""JSON that is nested too deeply is read without what lies deep, and everything else as it is."""

from __future__ import annotations

import json

import msgspec
import pytest

from tfjob.api.text.shallow import LEVELS, decoded, shallow

ANYTHING = msgspec.json.Decoder()


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, {"b": "c"}], "d": None},
        {"text": '[[[{ "}]" \\', "more": ["\\\\", '\\"[', "\n"]},
        ["{" * 1000, {"[" * 1000: "]" * 1000}],
        "[",
    ],
)
def test_what_is_not_deep_stays_as_it_is(value: object) -> None:
    encoded = json.dumps(value).encode()
    assert shallow(encoded) == encoded


@pytest.mark.parametrize("depth", [5_000, 100_000])
def test_what_lies_deep_is_null_and_its_neighbours_are_read(depth: int) -> None:
    deep = "[" * depth + '"]"' + "]" * depth
    read = decoded(ANYTHING, f'{{"before": {{"x": {deep}}}, "twice": {deep}, "after": "["}}'.encode())
    assert (set(read), read["after"]) == ({"before", "twice", "after"}, "[")
    levels, inner = 1, read["twice"]
    while inner:
        levels, (inner,) = levels + 1, inner
    assert (levels, inner) == (LEVELS, None)


def test_what_is_no_json_is_none_without_its_depth_either() -> None:
    with pytest.raises(msgspec.DecodeError):
        decoded(ANYTHING, b"[" * 5_000)
