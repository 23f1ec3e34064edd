"""The examples as their users run them, and what a training must have come to."""

from __future__ import annotations

from pathlib import Path

from installed import Installed

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_example(tool: Installed, home: Path, name: str, file: str = "tfjob.yaml") -> list[str]:
    """Runs one example and returns what it printed."""
    return run_to_the_end(tool, home, EXAMPLES / name / file)


def run_to_the_end(tool: Installed, home: Path, manifest: Path, *options: str) -> list[str]:
    """Runs a manifest, which must succeed, and returns what it printed."""
    done = tool.tfjob(home, "run", str(manifest), *options, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def accuracy(lines: list[str]) -> float:
    """The test accuracy that the chief printed last."""
    return float(next(line for line in reversed(lines) if " test accuracy " in line and "step" not in line).split()[-1])
