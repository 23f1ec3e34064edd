"""The long form of the tests (`pytest --long`): what CI leaves out, how often it is repeated, with which seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

Scaled = Callable[[int], int]
"""Turn the number of repetitions of docs/reliability.md into that of this run."""


def whole(*values: Any, **more: Any) -> Any:
    """Return the parameters of a case that runs with `--scale 1` only: others prove the same in another combination."""
    return pytest.param(*values, **more | {"marks": [*more.get("marks", ()), pytest.mark.whole]})


def each_with_each(rows: Sequence[tuple[Any, ...]], columns: Sequence[Any]) -> Iterator[Any]:
    """Yield every row with every column, of which only `--scale 1` runs all; at least as many rows as columns.

    Otherwise each row has one column, in turn: every row and every column is there.
    """
    for number, row in enumerate(rows):
        for column in columns:
            name = "-".join(map(str, (*row, column)))
            make = pytest.param if column is columns[number % len(columns)] else whole
            yield make(*row, column, id=name)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; without `--long` the tests marked `long` are not there at all."""
    parser.addoption("--long", action="store_true", help="also run the tests that CI leaves out")
    parser.addoption(
        "--scale",
        type=float,
        default=0.2,
        help="the part of their repetitions that long tests do; 1 also runs every combination of cases (default 0.2)",
    )
    parser.addoption("--seed", type=int, default=1, help="what the suites of faults draw their cases from")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: part of the long form, which CI does not run (pytest --long)")
    config.addinivalue_line("markers", "whole: a further combination, in the long form only with --scale 1")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [
        *([] if config.getoption("--long") else ["long"]),
        *([] if config.getoption("--scale") >= 1 else ["whole"]),
    ]
    deselected = {item for item in items if any(map(item.get_closest_marker, left_out))}
    config.hook.pytest_deselected(items=[item for item in items if item in deselected])
    items[:] = [item for item in items if item not in deselected]


@pytest.fixture(scope="session")
def scaled(request: pytest.FixtureRequest) -> Scaled:
    """How often this run does what its whole length does so often: at least once."""
    scale = float(request.config.getoption("--scale"))
    return lambda times: max(1, round(scale * times))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """What a suite of faults draws its cases from; printed by each test, so that one that fails can be repeated."""
    given = int(request.config.getoption("--seed"))
    print(f"seed {given}")
    return given
