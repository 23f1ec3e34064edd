"""What the user is told when something cannot be done."""

from __future__ import annotations

from pathlib import Path


class Refused(Exception):
    """One sentence: what, where, what to do."""


def tail(log: Path, lines: int = 15) -> str:
    """The end of a log, for an error that it explains."""
    if not log.exists():
        return ""
    return "\n".join(f"  {log.name}| {line[:400]}" for line in log.read_text(errors="replace").splitlines()[-lines:])
