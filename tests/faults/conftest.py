"""What the suites of faults share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bad_cases import ALL, SOME, Cases


@pytest.fixture(params=[pytest.param(SOME, id="some"), pytest.param(ALL, id="all", marks=pytest.mark.long)])
def cases(request: pytest.FixtureRequest, seed: int) -> Iterator[Cases]:
    """The cases of a run: few, or all of them."""
    cases = Cases(range(seed, seed + int(request.param)))
    yield cases
    cases.must_be_bounded()
