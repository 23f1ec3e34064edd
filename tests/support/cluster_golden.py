"""Golden files for the texts that tests see on real clusters, without what differs from cluster to cluster."""

from __future__ import annotations

import re
from pathlib import Path

from support.command_line import NORMAL, CommandLine
from support.golden import check_golden

GOLDEN = Path(__file__).parent / "data" / "cluster" / "golden"


def check_cluster_golden(name: str, text: str, **hidden: str) -> None:
    """Compare a text with golden/NAME.txt; each hidden value is replaced by its keyword."""
    for keyword, value in hidden.items():
        text = text.replace(value, keyword)
    for pattern, keyword in NORMAL:
        text = re.sub(pattern, keyword, text)
    check_golden(GOLDEN / f"{name}.txt", text.rstrip("\n") + "\n")


def transcript(line: CommandLine, *words: str, code: int = 0, env: dict[str, str] | None = None) -> str:
    """Run a command to its end and return its command line, then what it printed."""
    return f"$ tfjob {' '.join(words)}\n{line(*words, code=code, env=env)}"
