"""What other processes read about this one in /proc: its words, its variables and among them the mark of its pod.

Both lie in memory that a process is born with. A forked one writes over its copy, as far as there is room, so that it
looks like one that was started by itself and is found by its pod's mark.
"""

from __future__ import annotations

import ctypes
import os

from . import processes

ROOM = " " * 2048
"""A last word for a process whose forks will write over its words."""
BLANK_MARK = "0" * 98304
"""The value of the mark in a process whose forks will write their variables over it."""

_ARG_START, _ENV_START = 45, 47  # fields of stat, counted from the state; the ends follow


def show_words(argv: list[str]) -> None:
    """Show these words; without /proc nothing changes."""
    start, length = _born_with(_ARG_START)
    if length:
        words = b"".join(os.fsencode(word) + b"\0" for word in argv)
        ctypes.memmove(start, words[: length - 1].ljust(length, b"\0"), length)


def show_variables(env: dict[str, str]) -> None:
    """Show these, the mark first, in a process that was born with a blank one; without /proc nothing changes.

    What else it was born with stays: libraries may hold on to it, and it says the same.
    """
    start, length = _born_with(_ENV_START)
    blank = f"{processes.MARK}={BLANK_MARK}".encode()
    at = ctypes.string_at(start, length).find(blank) if length else -1
    if at >= 0:
        room = b""
        for name in sorted(env, key=lambda name: name != processes.MARK):
            entry = os.fsencode(f"{name}={env[name]}") + b"\0"
            room += entry if len(room) + len(entry) <= len(blank) else b""
        ctypes.memmove(start + at, room.ljust(len(blank), b"\0"), len(blank))


def _born_with(field: int) -> tuple[int, int]:
    """The address and the length of a piece of memory that stat tells of; no length if it does not."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[field]), int(fields[field + 1])
    except (OSError, ValueError, IndexError):
        return 0, 0
    return start, end - start if start else 0
