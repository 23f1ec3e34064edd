"""Find and open the log files of one run of a container: `log` is the current one, `log.1`, `log.2` ... are older.

Rotation may rename a file at any time, but only to the next number. Opening the files from the current one on therefore
misses none; a file that was renamed meanwhile is recognized by its inode.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

_MOST_FILES = 1000


def open_first(folder: Path, tail: int | None, since: datetime | None) -> BinaryIO | None:
    """Open the oldest file, the oldest with lines after `since`, or the one in which the last `tail` lines begin."""
    files = _open_all(folder)
    position = len(files) - 1
    if tail is not None:
        missing: int | None = None
        for number, file in enumerate(files):
            start, missing = _tail_start(file, tail, missing)
            if missing == 0:
                file.seek(start)
                position = number
                break
    elif since is not None:
        later = [number for number, file in enumerate(files) if _status(file).st_mtime >= since.timestamp()]
        position = max(later, default=0)
    return _keep(files, position)


def open_next(folder: Path, file: BinaryIO) -> tuple[BinaryIO | None, bool]:
    """Open the file after an open one, if it exists yet; return also whether the open one still exists."""
    files = _open_all(folder)
    for position, one in enumerate(files):
        if os.path.samestat(_status(one), _status(file)):
            return _keep(files, position - 1), True
    return _keep(files, len(files) - 1), False


def is_current(folder: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat((folder / "log").stat(), _status(file))
    except OSError:
        return False


def truncated(folder: Path) -> int:
    """Return how many bytes rotation removed."""
    try:
        return int((folder / "truncated").read_text() or 0)
    except (OSError, ValueError):
        return 0


def _open_all(folder: Path) -> list[BinaryIO]:
    """Open every file, the current one first. A rotation in progress leaves at most one number vacant."""
    files: dict[int, BinaryIO] = {}
    vacant = 0
    for number in range(_MOST_FILES):
        with suppress(OSError):
            file = (folder / (f"log.{number}" if number else "log")).open("rb")
            if files.setdefault(_status(file).st_ino, file) is not file:
                file.close()
            vacant = 0
            continue
        vacant += 1
        if vacant == 2:
            break
    return list(files.values())


def _keep(files: list[BinaryIO], position: int) -> BinaryIO | None:
    """Close all files but one; return that one, if it exists."""
    for number, file in enumerate(files):
        if number != position:
            file.close()
    return files[position] if 0 <= position < len(files) else None


def _status(file: BinaryIO) -> os.stat_result:
    return os.fstat(file.fileno())


def _tail_start(file: BinaryIO, count: int, missing: int | None) -> tuple[int, int | None]:
    """Return where the last lines begin in a file, and how many line ends must be found in older files.

    `missing` is None until the newest record is seen: an unfinished line counts as one line.
    """
    end = _status(file).st_size
    if end == 0:
        return 0, missing
    with mmap.mmap(file.fileno(), end, access=mmap.ACCESS_READ) as data:
        while end > 0:
            start = data.rfind(b"\n", 0, end - 1) + 1
            complete = data[start : min(end, start + 80)].split(b" ", 3)[2:3] == [b"F"]
            if missing is None:
                missing = count + 1 if complete else max(count, 1)
            if complete:
                missing -= 1
                if missing == 0:
                    return end, 0
            end = start
    return 0, missing
