"""A terminal with lines that scroll away and a panel that stays below them; the cursor rests at the panel's end.

Nothing but the panel is ever drawn again: lines go where the terminal keeps them, to be scrolled back to. The cursor
is hidden only within a painting, so that a process that is killed leaves it.
"""

from __future__ import annotations

import errno
import os
import termios
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import ceil
from typing import NamedTuple, TextIO

WIDTH, HEIGHT = 80, 24
"""Of a terminal that does not say."""
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
BEGIN_FRAME, END_FRAME = "\x1b[?2026h", "\x1b[?2026l"
"""Terminals that know these show what is between them at once; others ignore them."""
NO_WRAP, WRAP = "\x1b[?7l", "\x1b[?7h"
ERASE_LINE, UP = "\x1b[2K", "\x1b[A"


class Size(NamedTuple):
    """In cells."""

    width: int
    height: int


class Painted(NamedTuple):
    """A line of the panel with its colours, and how many cells it takes."""

    text: str
    cells: int


class Terminal:
    """Ours between `open` and `close`, which may be called at any time and more than once."""

    def __init__(self, stream: TextIO, write: Callable[[str], None] | None = None) -> None:
        """`write` is what writes to the stream, in place of the stream itself."""
        self._stream = stream
        self._descriptor = stream.fileno()
        self._write = write or self._write_through
        self._drawn: Sequence[Painted] = ()
        self._modes: list[int | list[bytes | int]] | None = None

    @property
    def size(self) -> Size:
        try:
            width, height = os.get_terminal_size(self._descriptor)
        except OSError:
            width, height = 0, 0
        return Size(width or WIDTH, height or HEIGHT)

    @property
    def is_ours(self) -> bool:
        """Whether we may change it: who is in the background of a terminal would be stopped for it."""
        try:
            return os.tcgetpgrp(self._descriptor) == os.getpgrp()
        except OSError as error:
            return error.errno == errno.ENOTTY  # not the one that controls us, so that nobody stops us

    @property
    def is_open(self) -> bool:
        """Whether there is, or may be, a panel."""
        return self._modes is not None

    def open(self) -> None:
        """Hides what is typed, which would tear the panel."""
        if self._modes is not None or not self.is_ours:
            return
        modes = termios.tcgetattr(self._descriptor)
        self._modes = [*modes]
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(self._descriptor, termios.TCSANOW, modes)

    def close(self) -> None:
        """Removes the panel and leaves the terminal as it was found."""
        if self._modes is None:
            return
        try:
            self._write(self._erasure())
        finally:
            self._drawn = ()
            self.give_back()

    def give_back(self) -> None:
        """Shows again what is typed, and writes nothing."""
        modes, self._modes = self._modes, None
        if modes is not None:
            with suppress(termios.error):  # the terminal is gone
                # Now: a terminal that takes nothing for a while (Ctrl-S) would keep us here.
                termios.tcsetattr(self._descriptor, termios.TCSANOW, modes)

    def show(self, lines: Sequence[str], panel: Sequence[Painted]) -> None:
        """Adds lines above the panel and draws it anew; while it is not open, the lines alone."""
        above = "".join(f"{line}\n" for line in lines)
        drawn = panel if self.is_open else ()
        below = f"{NO_WRAP}{_joined(drawn)}{WRAP}" if drawn else ""
        self._write(f"{BEGIN_FRAME}{HIDE_CURSOR}{self._erasure()}{above}{below}{SHOW_CURSOR}{END_FRAME}")
        self._drawn = drawn

    def _erasure(self) -> str:
        """What removes the panel, also when the terminal has become narrower and broke its lines."""
        if not self._drawn:
            return ""
        width, height = self.size
        rows = sum(max(1, ceil(line.cells / width)) for line in self._drawn)
        # Line by line: tmux takes an erasure of all that is below its first line for one of the screen, and keeps the
        # old panel in its history.
        return f"\r{ERASE_LINE}{f'{UP}{ERASE_LINE}' * (min(rows, height) - 1)}"

    def _write_through(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _joined(lines: Sequence[Painted]) -> str:
    return "\n".join(line.text for line in lines)


def suits(stream: TextIO) -> bool:
    """Whether a live view can be shown there: a terminal that moves its cursor, in front, with our letters."""
    if not stream.isatty() or os.environ.get("TERM", "dumb") in ("dumb", ""):
        return False
    return stream.encoding.lower().replace("-", "") == "utf8" and Terminal(stream).is_ours
