"""Compare two checkouts: run the benchmarks of each in turns, and print the ratios of after to before.

    python bench/compare.py BEFORE AFTER [--pairs 9] [--only help,ps,idle,warm,operator]

Each checkout needs its virtual environment in `.venv`. The two take turns, and every second pair starts with the other
one, so that noise of the machine affects both. A figure is the median over all pairs. A ratio above 1.05 is marked.
`operator` starts a control plane per run. This is not a test.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

LIMIT = 1.05
"""The largest ratio of after to before that counts as noise."""


@dataclass(frozen=True)
class Benchmark:
    """One command of a checkout, and the figures in its output: a name and a pattern each.

    A pattern with two groups is the ratio of the first to the second.
    """

    command: tuple[str, ...]
    figures: dict[str, str]


BENCHMARKS = {
    "help": Benchmark(
        ("bench/overhead.py", "5", "help"),
        {
            "tfjob --help, CPU ms": r"^tfjob --help\s+\d+ ms\s+(\d+) ms",
            "a job of 3 processes, CPU ms": r"^a job of 3 x .*?\s+\d+ ms\s+(\d+) ms",
        },
    ),
    "ps": Benchmark(("bench/overhead.py", "3", "ps"), {"ps with 1,000 runs, ms": r"^tfjob ps, .*?\s+(\d+) ms"}),
    "idle": Benchmark(("bench/overhead.py", "1", "idle"), {"idle run, MiB": r"of a core, (\d+) MiB"}),
    "warm": Benchmark(
        ("bench/warm.py", "--pairs", "2"), {"warm launch to bare loop": r"warm ([\d.]+) s, loop ([\d.]+) s"}
    ),
    "operator": Benchmark(
        ("-m", "bench.scale", "--jobs", "100"),
        {
            "operator to floor": r"ratio ([\d.]+)$",
            "operator, CPU ms per job": r"CPU .*? ([\d.]+) ms",
            "operator, MiB": r"RSS (\d+) MiB",
        },
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--only", default=",".join(BENCHMARKS), help="benchmarks, separated by commas")
    options = parser.parse_args()
    for name in options.only.split(","):
        compare(BENCHMARKS[name], options.before.absolute(), options.after.absolute(), options.pairs)


def compare(benchmark: Benchmark, before: Path, after: Path, pairs: int) -> None:
    """Run one benchmark in both checkouts and print the ratio of each of its figures."""
    seen: dict[Path, list[dict[str, float]]] = {before: [], after: []}
    for number in range(pairs):
        for checkout in (before, after) if number % 2 else (after, before):
            seen[checkout].append(run(benchmark, checkout))
    for figure in benchmark.figures:
        old, new = (statistics.median(one[figure] for one in seen[checkout]) for checkout in (before, after))
        ratio = statistics.median(b[figure] / a[figure] for a, b in zip(seen[before], seen[after], strict=True))
        mark = "   ABOVE THE LIMIT" if ratio > LIMIT else ""
        print(f"{figure:32} before {old:8.3f}   after {new:8.3f}   ratio {ratio:.2f}{mark}", flush=True)


def run(benchmark: Benchmark, checkout: Path) -> dict[str, float]:
    """Run one benchmark in one checkout and return its figures."""
    python = checkout / ".venv" / "bin" / "python"
    done = subprocess.run([python, *benchmark.command], cwd=checkout, capture_output=True, text=True, check=False)
    found = {name: re.search(pattern, done.stdout, re.MULTILINE) for name, pattern in benchmark.figures.items()}
    if done.returncode or not all(found.values()):
        sys.exit(f"{checkout}: {' '.join(benchmark.command)} failed:\n{done.stdout}{done.stderr}")
    return {name: _figure(*match.groups()) for name, match in found.items() if match}


def _figure(value: str, base: str = "1") -> float:
    return float(value) / float(base)


if __name__ == "__main__":
    main()
