"""Errors for the user."""

from __future__ import annotations

from pathlib import Path


class Refused(Exception):
    """One sentence: what is wrong, where, and what to do."""


def tail(log: Path, lines: int = 15) -> str:
    if not log.exists():
        return ""
    return "\n".join(f"  {log.name}| {line[:400]}" for line in log.read_text(errors="replace").splitlines()[-lines:])
