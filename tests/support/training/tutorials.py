"""The programs in the style of tutorials (tests/programs/tutorials), how to run them, and what they must print."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

PROGRAMS = Path(__file__).parents[2] / "programs" / "tutorials"
BAR = re.compile(r"\b(\d+)/\1 ━+ ")
"""The final state of a progress bar of Keras 3."""


class Tutorial(NamedTuple):
    """A program with the options of `tfjob run`, the replicas that print losses, and the bars that each shows."""

    words: tuple[str, ...]
    tellers: tuple[str, ...] = ("worker-0",)
    bars: int = 3
    epochs: int = 3


TUTORIALS = {
    "progress": Tutorial(("progress.py",)),
    "multi-worker": Tutorial(("multi_worker.py", "--workers", "2"), ("worker-0", "worker-1")),
    "parameter-server": Tutorial(
        ("parameter_server.py", "--chief", "--workers", "2", "--ps", "1"), ("chief-0",), bars=0
    ),
    "custom-loop": Tutorial(("custom_loop.py", "--workers", "2"), ("worker-0", "worker-1"), bars=0),
    "backup": Tutorial(("backup.py",), bars=4, epochs=2),
    "data-service": Tutorial(("data_service.py", "--chief", "--workers", "2", "--ps", "1"), ("chief-0",)),
    "several-processes": Tutorial(("several_processes.py",)),
    "package": Tutorial(("-m", "digits.train", "--", "--epochs", "3"), bars=0),
}

ON_NODES = tuple(name for name in TUTORIALS if name != "backup")
"""Those that need no storage: on a cluster, a program without a manifest has none. The other one has its own test."""


def check_output(tutorial: Tutorial, teller: str, lines: Sequence[str]) -> None:
    """Check what a replica printed: losses that fall, and one line for each progress bar, in its final state."""
    (losses,) = [json.loads(line.removeprefix("losses ")) for line in lines if line.startswith("losses ")]
    assert len(losses) == tutorial.epochs, lines
    assert losses[-1] < losses[0]
    assert not [line for line in lines if "\r" in line or "\b" in line]
    assert sum(BAR.search(line) is not None for line in lines) == tutorial.bars, f"{teller}: {lines}"
