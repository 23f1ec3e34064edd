"""The cases of bad input that one run tries, each in little time, all of them in little memory."""

from __future__ import annotations

import gc
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support import bad_input
from support.long_form import Scaled

SECONDS = 3.0
"""Of computing, for one case; nearly all of them take some milliseconds, five megabytes less than one second."""
MEGABYTES = 200
"""By which the memory of a process may grow, whatever it reads."""
SOME, ALL = 100, 10_000


@dataclass
class Cases:
    """The numbers of the cases, how long the slowest took, and by how much the memory of the process grew."""

    numbers: range
    slowest: float = 0.0
    memory: int = field(default_factory=lambda: forgotten_peak())
    drawn: Counter[str] = field(default_factory=lambda: Counter(bad_input.DRAWN))

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    @contextmanager
    def case(self, number: int) -> Iterator[None]:
        """One case: it takes little time, and if it fails its number is told."""
        begun = time.process_time()
        try:
            yield
        except Exception as error:
            raise AssertionError(f"case {number}: {type(error).__name__}: {error}") from error
        took = time.process_time() - begun
        self.slowest = max(self.slowest, took)
        assert took < SECONDS, f"case {number} took {took:.1f} s"

    def must_have_drawn(self, *kinds: str) -> None:
        """Checks that the cases were of all kinds."""
        drawn = bad_input.DRAWN - self.drawn
        rare = {"huge"} if len(self) < 10 * bad_input.ONE_IN else set()
        assert not {*kinds} - drawn.keys() - rare, f"never drawn: {set(kinds) - drawn.keys()}"

    def must_be_bounded(self) -> None:
        """Checks the memory that they took, and prints the figures."""
        grown = (peak() - self.memory) / 2**20
        print(f"{len(self)} cases, the slowest {self.slowest:.2f} s; memory grew by {grown:.0f} MB at most")
        assert grown < MEGABYTES


def peak() -> int:
    """The most memory that this process had since its peak was forgotten, in bytes."""
    (kilobytes,) = re.findall(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(kilobytes) * 1024


def forgotten_peak() -> int:
    """Has the kernel forget the peak of earlier tests, under which anything would fit; what is in use now, in bytes."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


# --- what the suites of faults share ----------------------------------------------------------------------------------


@pytest.fixture(params=[pytest.param(SOME, id="some"), pytest.param(ALL, id="all", marks=pytest.mark.long)])
def cases(request: pytest.FixtureRequest, seed: int, scaled: Scaled) -> Iterator[Cases]:
    """The cases of a run: few in CI, up to all of them in the long form."""
    count = SOME if request.param == SOME else scaled(request.param)
    cases = Cases(range(seed, seed + count))
    yield cases
    cases.must_be_bounded()
