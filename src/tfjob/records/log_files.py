"""The log files of one run of a container: `log` is the current one, `log.1`, `log.2` ... are older.

A file is identified by its inode, because rotation may rename it at any time.
"""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

_MOST_FILES = 1000
_LOOKS = 20  # one is enough for a rotation; the limit is for a folder that was moved away


class LogFiles:
    """The files of one run by number: 0 is the current one, higher numbers are older."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, number: int) -> Path:
        return self._folder / (f"log.{number}" if number else "log")

    def open(self, number: int) -> BinaryIO | None:
        try:
            return self.path(number).open("rb")
        except OSError:
            return None

    def numbers(self) -> list[int]:
        """Return the existing numbers, the current file first.

        Each name is checked: listing a folder during a rename may omit entries. A rotation in progress leaves at most
        one number vacant.
        """
        found: list[int] = []
        for number in range(_MOST_FILES):
            if self.path(number).exists():
                found.append(number)
            elif number and number - 1 not in found:
                break
        return found

    def number_of(self, file: BinaryIO) -> int | None:
        """Return the number of an open file; None if rotation removed it."""
        for _ in range(_LOOKS):
            mine = os.fstat(file.fileno())
            for number in self.numbers() if mine.st_nlink else ():
                try:
                    if os.path.samestat(self.path(number).stat(), mine):
                        return number
                except OSError:
                    continue
        return None

    def oldest(self, since: datetime | None = None) -> int:
        """Return the number of the oldest file, or of the oldest with lines after `since`."""
        for number in reversed(self.numbers()):
            try:
                if since is None or self.path(number).stat().st_mtime >= since.timestamp():
                    return number
            except OSError:
                continue
        return 0

    def open_oldest(self, since: datetime | None = None) -> BinaryIO | None:
        """Open the oldest file, or the oldest with lines after `since`; None if there is none."""
        while file := self.open(number := self.oldest(since)):
            if self.number_of(file) == number == self.oldest(since):
                return file
            file.close()  # renamed before it was opened
        return None

    def truncated(self) -> int:
        """Return how many bytes rotation removed."""
        try:
            return int((self._folder / "truncated").read_text() or 0)
        except (OSError, ValueError):
            return 0

    def open_tail(self, count: int) -> BinaryIO | None:
        """Open the file that contains the start of the last `count` lines, at that position."""
        chosen: BinaryIO | None = None
        missing: int | None = None
        seen: set[tuple[int, int]] = set()
        for number in range(_MOST_FILES):
            file = self.open(number)
            if file is None:
                if number > 0:
                    break
                continue
            stat = os.fstat(file.fileno())
            if (stat.st_dev, stat.st_ino) in seen:
                file.close()  # renamed since the last iteration
                continue
            seen.add((stat.st_dev, stat.st_ino))
            if chosen is not None:
                chosen.close()
            chosen = file
            start, missing = _tail_start(file, count, missing)
            file.seek(start)
            if missing == 0:
                break
        return chosen


def _tail_start(file: BinaryIO, count: int, missing: int | None) -> tuple[int, int | None]:
    """Return where the last lines begin in a file, and how many line ends must be found in older files.

    `missing` is None until the newest record is seen: an unfinished line counts as one line.
    """
    end = os.fstat(file.fileno()).st_size
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
