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

_ARG_START, _ARG_END, _ENV_START, _ENV_END = 45, 46, 47, 48  # fields of stat, counted from the state


def show_as(argv: list[str], uid: str) -> None:
    """Show these words and this pod's mark; without /proc nothing changes."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = [int(field) for field in file.read().rpartition(b")")[2].split()[1:]]
    except (OSError, ValueError):
        return
    start, end = fields[_ARG_START - 1], fields[_ARG_END - 1]
    words = b"".join(os.fsencode(word) + b"\0" for word in argv)
    if 0 < start < end:
        _overwrite(start, words[: end - start - 1].ljust(end - start, b"\0"))
    start, end = fields[_ENV_START - 1], fields[_ENV_END - 1]
    if 0 < start < end:
        blank = f"{processes.MARK}={BLANK_MARK}".encode()
        at = ctypes.string_at(start, end - start).find(blank)
        if at >= 0:
            _overwrite(start + at, f"{processes.MARK}={uid}".encode()[: len(blank)].ljust(len(blank), b"\0"))


def _overwrite(address: int, data: bytes) -> None:
    ctypes.memmove(address, data, len(data))
