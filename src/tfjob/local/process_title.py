"""What other processes read about this one in /proc: its words, and the mark of its pod.

Both lie in memory that a process is born with. A forked one writes over its copy, as far as there is room, so that it
looks like one that was started by itself and is found by its pod's mark.
"""

from __future__ import annotations

import ctypes
import os

from . import processes

ROOM = " " * 2048
"""A last word for a process whose forks will write over its words."""
BLANK_MARK = "0" * 64
"""The value of the mark in a process whose forks will write over it."""

_ARG_START, _ENV_START = 45, 47  # fields of stat, counted from the state; the ends follow


def show_words(argv: list[str]) -> None:
    """Show these words; without /proc nothing changes."""
    start, length = _born_with(_ARG_START)
    if length:
        words = b"".join(os.fsencode(word) + b"\0" for word in argv)
        ctypes.memmove(start, words[: length - 1].ljust(length, b"\0"), length)


def show_mark(uid: str) -> None:
    """Show the mark of this pod, in a process that was born with a blank one; without /proc nothing changes."""
    start, length = _born_with(_ENV_START)
    blank = f"{processes.MARK}={BLANK_MARK}".encode()
    at = ctypes.string_at(start, length).find(blank) if length else -1
    if at >= 0:
        mark = f"{processes.MARK}={uid}".encode()
        ctypes.memmove(start + at, mark[: len(blank)].ljust(len(blank), b"\0"), len(blank))


def _born_with(field: int) -> tuple[int, int]:
    """The address and the length of a piece of memory that stat tells of; no length if it does not."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[field]), int(fields[field + 1])
    except (OSError, ValueError, IndexError):
        return 0, 0
    return start, end - start if start else 0
