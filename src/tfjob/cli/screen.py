"""Where an attached run prints: plain lines, or a live view with the same lines above a panel."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol, Self

import click

from tfjob.cli import terminal
from tfjob.cli.outcome import colour, discard_stdout
from tfjob.cli.snapshot import Snapshot

PERIOD = 0.15
"""Seconds between two looks whether there is something to paint; the first comes when replicas have been started."""
CLOCK = 1.0
"""Seconds after which it is painted though nothing was printed: the clock, and what is measured."""


class Screen(Protocol):
    """Takes what a run prints, and shows it within `async with`; losing whoever reads it ends nothing.

    `kept` are the places where the same can be read later, and `jobs` give what a live view shows of each job.
    """

    kept: list[str]
    jobs: list[Callable[[], Snapshot]]

    @property
    def width(self) -> int | None:
        """Of the terminal that shows a live view; None when lines are printed."""

    def print(self, text: str) -> None:
        """One line, or several."""

    def tell(self, text: str) -> None:
        """The same of what is for the person at the terminal alone."""

    async def __aenter__(self) -> Self:
        """Begins to show."""

    async def __aexit__(self, *_: object) -> None:
        """Shows what is left, and leaves the terminal as it was found."""


def screen_for(*, plain: bool, hint: str) -> Screen:
    """A live view where the output can show one, unless the user wants lines; `hint` is a line at its end."""
    stream = sys.stdout
    if plain or not isinstance(stream, io.TextIOWrapper) or not terminal.suits(stream):
        return Lines()
    return Live(terminal.Terminal(stream), hint, colour=colour() is not False)


class Lines:
    """Plain lines, as they come."""

    width = None

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.jobs: list[Callable[[], Snapshot]] = []
        self._muted = False

    def print(self, text: str) -> None:
        """On stdout."""
        if self._muted:
            return
        try:
            click.echo(text)
        except OSError as error:
            self.lose(error)

    def tell(self, text: str) -> None:
        """On stderr."""
        click.echo(text, err=True)

    def lose(self, error: OSError) -> None:
        """Prints nothing any longer: nobody can read it."""
        self._muted = True
        if not isinstance(error, BrokenPipeError):
            where = ", ".join(self.kept)
            click.echo(f"cannot print any longer ({error.strerror}); the logs go on in {where}", err=True)
        discard_stdout()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class Live:
    """Lines above a panel that is painted a few times a second at most, and only when there is something to paint."""

    def __init__(self, place: terminal.Terminal, hint: str, *, colour: bool) -> None:
        self.jobs: list[Callable[[], Snapshot]] = []
        self._terminal = place
        self._hint = hint
        self._colour = colour
        self._waiting: list[str] = []
        self._size: terminal.Size | None = None
        self._next = 0.0
        self._otherwise = Lines()
        self.kept = self._otherwise.kept
        self._given_up = False

    @property
    def width(self) -> int | None:
        """As it is now."""
        return self._terminal.size.width

    def print(self, text: str) -> None:
        """Above the panel, with the next painting."""
        if self._given_up:
            self._otherwise.print(text)
        else:
            self._waiting.append(text if self._colour else click.unstyle(text))

    def tell(self, text: str) -> None:
        """As everything else: the terminal has one panel, whichever stream reaches it."""
        self.print(text)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTSTP, self._rest)
        loop.add_signal_handler(signal.SIGCONT, self._return)
        loop.add_signal_handler(signal.SIGQUIT, self._quit)
        self._stderr, sys.stderr = sys.stderr, _Above(self) if sys.stderr.isatty() else sys.stderr
        self._painting = asyncio.create_task(self._paint())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._painting.cancel()
        try:
            with suppress(asyncio.CancelledError):
                await self._painting
        finally:
            self._leave()
            sys.stderr = self._stderr
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTSTP, signal.SIGCONT, signal.SIGQUIT):
                loop.remove_signal_handler(number)

    async def _paint(self) -> None:
        await asyncio.sleep(PERIOD)
        self._guarded(self._terminal.open)
        while not self._given_up:
            self._guarded(self.refresh)
            await asyncio.sleep(PERIOD)

    def refresh(self) -> None:
        """Paints if there is something new: lines, another size, a second that has gone by."""
        size = self._terminal.size
        is_due = self._terminal.is_open and (size != self._size or time.monotonic() >= self._next)
        if not self._waiting and not is_due:
            return
        # Here alone: rich takes longer to load than a replica to be started.
        from tfjob.cli.panel import paint, panel

        jobs = [job() for job in self.jobs]
        lines = paint(panel(jobs, datetime.now(UTC), size.width, size.height, self._hint), colour=self._colour)
        waiting, self._waiting = self._waiting, []
        self._size, self._next = size, time.monotonic() + CLOCK
        self._show(waiting, lines)

    def _guarded(self, step: Callable[[], None]) -> None:
        """A view that fails must not end a training: what is left is printed plainly."""
        try:
            step()
        except Exception as error:
            # The one place that must not let a fault of ours through: locally every replica would end with it.
            self._leave()
            self._given_up = True
            self._otherwise.tell(f"the live view failed ({type(error).__name__}: {error}); lines follow")
            if os.environ.get("TFJOB_DEBUG"):
                self._otherwise.tell(traceback.format_exc())

    def _leave(self) -> None:
        """Shows what is left, and leaves the terminal."""
        if not self._given_up:
            waiting, self._waiting = self._waiting, []
            self._show(waiting, ())
        with suppress(OSError):
            self._terminal.close()

    def _show(self, lines: Sequence[str], panel: Sequence[terminal.Painted]) -> None:
        try:
            self._terminal.show(lines, panel)
        except OSError as error:
            self._given_up = True
            self._otherwise.lose(error)

    def _rest(self) -> None:
        """Ctrl-Z: the shell gets the terminal as it was; when we go on, SIGCONT opens the view again."""
        self._leave()
        os.kill(os.getpid(), signal.SIGSTOP)

    def _return(self) -> None:
        self._size = None  # whatever the terminal shows by now, it is not ours
        self._guarded(self._terminal.open)

    def _quit(self) -> None:
        self._leave()
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGQUIT)


class _Above(io.TextIOBase):
    """Stands in for stderr: a warning of some library goes above the panel too."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._begun = ""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *whole, self._begun = (self._begun + text).split("\n")
        for line in whole:
            self._live.print(line)
        return len(text)
