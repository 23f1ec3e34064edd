"""A terminal with scrolling lines and a panel below them; the cursor stays at the end of the panel.

Only the panel is redrawn: lines go to the terminal's scrollback. The cursor is hidden only while painting, so that a
killed process leaves it visible.
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
"""Assumed if the terminal does not report a size."""
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
BEGIN_FRAME, END_FRAME = "\x1b[?2026h", "\x1b[?2026l"
"""Terminals that support these show the text between them at once; others ignore them."""
NO_WRAP, WRAP = "\x1b[?7l", "\x1b[?7h"
ERASE_LINE, UP = "\x1b[2K", "\x1b[A"


class Painted(NamedTuple):
    """A line of the panel with escape sequences, and its width in cells."""

    text: str
    cells: int


class Terminal:
    """Shows a panel between `open` and `close`, which may be called at any time and repeatedly."""

    def __init__(self, stream: TextIO, write: Callable[[str], object]) -> None:
        """`write` writes to the stream."""
        self._descriptor = stream.fileno()
        self._write = write
        self._drawn: Sequence[Painted] = ()
        self._modes: list[int | list[bytes | int]] | None = None

    @property
    def size(self) -> os.terminal_size:
        try:
            width, height = os.get_terminal_size(self._descriptor)
        except OSError:
            width, height = 0, 0
        return os.terminal_size((width or WIDTH, height or HEIGHT))

    @property
    def is_ours(self) -> bool:
        """Whether we may change its modes: a background process would be stopped by SIGTTOU."""
        try:
            return os.tcgetpgrp(self._descriptor) == os.getpgrp()
        except OSError as error:
            return error.errno == errno.ENOTTY  # not our controlling terminal, so no SIGTTOU

    @property
    def is_open(self) -> bool:
        """Whether a panel can be shown."""
        return self._modes is not None

    def open(self) -> None:
        """Turn off echo, because typed characters would break the panel."""
        if self._modes is not None or not self.is_ours:
            return
        modes = termios.tcgetattr(self._descriptor)
        self._modes = [*modes]
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(self._descriptor, termios.TCSANOW, modes)

    def close(self) -> None:
        """Remove the panel and restore the terminal."""
        if self._modes is None:
            return
        try:
            self._write(self._erasure())
        finally:
            self._drawn = ()
            self.give_back()

    def give_back(self) -> None:
        """Restore the modes of the terminal without writing to it."""
        modes, self._modes = self._modes, None
        if modes is not None:
            with suppress(termios.error):  # the terminal is gone
                # TCSANOW, because a terminal paused with Ctrl-S would block TCSADRAIN.
                termios.tcsetattr(self._descriptor, termios.TCSANOW, modes)

    def show(self, lines: Sequence[str], panel: Sequence[Painted]) -> None:
        """Print lines above the panel and redraw it; if not open, print only the lines."""
        above = "".join(f"{line}\n" for line in lines)
        drawn = panel if self.is_open else ()
        rows = "\n".join(line.text for line in drawn)
        below = f"{NO_WRAP}{rows}{WRAP}" if drawn else ""
        self._write(f"{BEGIN_FRAME}{HIDE_CURSOR}{self._erasure()}{above}{below}{SHOW_CURSOR}{END_FRAME}")
        self._drawn = drawn

    def _erasure(self) -> str:
        """Return the sequence that erases the panel, even if a narrower terminal has wrapped its lines."""
        if not self._drawn:
            return ""
        width, height = self.size
        rows = sum(max(1, ceil(line.cells / width)) for line in self._drawn)
        # Line by line, because tmux keeps the old panel in its history if everything below the first line is erased.
        return f"\r{ERASE_LINE}{f'{UP}{ERASE_LINE}' * (min(rows, height) - 1)}"


def suits(stream: TextIO) -> bool:
    """Return whether a stream can show a live view: a foreground terminal with cursor movement and UTF-8."""
    if not stream.isatty() or os.environ.get("TERM", "dumb") in ("dumb", ""):
        return False
    return stream.encoding.lower().replace("-", "") == "utf8" and Terminal(stream, stream.write).is_ours
