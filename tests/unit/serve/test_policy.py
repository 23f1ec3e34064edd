"""Which versions to load and unload."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfjob.serve.config import All, Latest, ModelConfig, Specific
from tfjob.serve.policy import Failure, Step, next_step, read_names

NOW = 100.0
LATER, DUE, SPENT = Failure(1, NOW + 1), Failure(1, NOW), Failure(6, NOW - 1)


@pytest.mark.parametrize(
    ("policy", "seen", "loaded", "failures", "expected"),
    [
        (Latest(), {1, 2}, set(), {}, Step(load=2)),
        (Latest(), {1, 2}, {2}, {}, Step()),
        (Latest(), {1, 2}, {1}, {}, Step(load=2)),
        (Latest(), {1, 2}, {1, 2}, {}, Step(unload=frozenset({1}))),
        (Latest(), {1, 2}, set(), {2: LATER}, Step(load=1)),
        (Latest(), {1, 2}, {1}, {2: LATER}, Step()),
        (Latest(), {1, 2}, {1}, {2: DUE}, Step(load=2)),
        (Latest(), {1, 2}, {1}, {2: SPENT}, Step()),
        (Latest(), {1}, {2}, {}, Step(load=1)),
        (Latest(), {1}, {1, 2}, {}, Step(unload=frozenset({2}))),
        (Latest(), set(), {1, 2}, {}, Step()),
        (Latest(2), {1, 2, 3}, {1, 2}, {}, Step(load=3)),
        (Latest(2), {1, 2, 3}, {1, 2, 3}, {}, Step(unload=frozenset({1}))),
        (Latest(0), {1}, set(), {}, Step(load=1)),
        (All(), {1, 2}, {2}, {}, Step(load=1)),
        (All(), {2}, {1, 2}, {}, Step(unload=frozenset({1}))),
        (All(), {1, 2}, {2}, {1: LATER}, Step()),
        (Specific((1, 3)), {1, 2, 3}, {2}, {}, Step(load=3)),
        (Specific((1, 3)), {1, 2, 3}, {1, 2, 3}, {}, Step(unload=frozenset({2}))),
        (Specific((7,)), {1, 2}, {1}, {}, Step()),
        (Specific(()), {1, 2}, {1}, {}, Step(unload=frozenset({1}))),
    ],
)
def test_the_next_step(
    policy: Latest | All | Specific,
    seen: set[int],
    loaded: set[int],
    failures: dict[int, Failure],
    expected: Step,
) -> None:
    assert next_step(ModelConfig("m", Path("/m"), policy), seen, loaded, failures, 5, NOW) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["1", "00000123"], {1: "1", 123: "00000123"}),
        (["3.tmp", ".new-4", "assets", "-1", "٣", ""], {}),
        (["9223372036854775807"], {2**63 - 1: "9223372036854775807"}),
    ],
)
def test_versions_are_folders_named_by_whole_numbers(names: list[str], expected: dict[int, str]) -> None:
    folders = read_names(names)
    assert folders.names == expected
    assert folders.warnings == ()


def test_two_spellings_of_one_number_are_a_warning() -> None:
    folders = read_names(["0001", "1"])
    assert folders.names == {1: "1"}
    assert "0001" in folders.warnings[0]


@pytest.mark.parametrize("name", ["v0.1", "1.0", "V2", "9223372036854775808"])
def test_a_name_like_a_version_gets_a_hint(name: str) -> None:
    folders = read_names([name])
    assert folders.names == {}
    assert "whole number" in folders.warnings[0]
