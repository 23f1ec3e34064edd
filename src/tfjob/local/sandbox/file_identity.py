"""Whether a path still names the same file, and whether that file is as it was."""

from __future__ import annotations

import os


def identity(path: str) -> tuple[int, int] | None:
    """What stays while a path names the same file; None when there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def version(path: str) -> tuple[int, int, int] | None:
    """What changes when a file is written or replaced: its time alone may not, within one tick of the clock."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
