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
from typing import IO, Protocol, Self, cast

import click

from tfjob.cli.exit_codes import colour, discard, discard_output, one_file
from tfjob.cli.terminal import terminal
from tfjob.cli.terminal.outbox import MOST_BYTES, Outbox
from tfjob.jobs.progress import Snapshot

PERIOD = 0.15
"""Seconds between two looks whether there is something to paint; the first comes when replicas have been started."""
CLOCK = 1.0
"""Seconds after which it is painted though nothing was printed: the clock, and what is measured."""
PATIENCE = 1.0
"""Seconds that a terminal, or stderr, has to take what it must before we go on without it."""


class Screen(Protocol):
    """Takes what a run prints, and shows it within `async with`; losing whoever reads it ends nothing.

    Nor does a reader that reads nothing for a while: nobody waits for it before the end of the `async with`. `kept` are
    the places where the same can be read later, and `jobs` give what a live view shows of each job.
    """

    kept: list[str]
    jobs: list[Callable[[], Snapshot]]

    @property
    def width(self) -> int | None:
        """Of the terminal that shows a live view; None when lines are printed."""

    @property
    def is_behind(self) -> bool:
        """Whether so much waits for its reader that nothing should be added that can be read later."""

    @property
    def is_left(self) -> bool:
        """Whether nobody reads it any longer, so that nothing needs to be printed."""

    def leave(self) -> None:
        """Does not wait for the reader at the end: what was not read by then is not printed."""

    def hurry(self) -> None:
        """From now on leaves a reader that takes nothing for a moment."""

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
        self._out: _BufferedStream | None = None
        self._err: _BufferedStream | None = None

    @property
    def is_behind(self) -> bool:
        """By what waits for stdout."""
        return self._out is not None and self._out.outbox.is_full

    @property
    def is_left(self) -> bool:
        """Of stdout; that it broke is said here too, for nothing is printed any longer by then."""
        self._look()
        outbox = self._out.outbox if self._out is not None else None
        return self._muted or (outbox is not None and (outbox.is_left or outbox.error is not None))

    def leave(self) -> None:
        """Of stdout; nobody waits long for stderr."""
        if self._out is not None:
            self._out.outbox.leave()

    def hurry(self) -> None:
        """Of stdout too."""
        if self._out is not None:
            self._out.outbox.hurry(PATIENCE)

    def print(self, text: str) -> None:
        """On stdout."""
        self._look()
        if self._muted:
            return
        try:
            click.echo(text, file=cast(IO[str] | None, self._out))
        except OSError as error:
            self.lose(error)

    def tell(self, text: str) -> None:
        """On stderr."""
        click.echo(text, file=cast(IO[str] | None, self._err), err=True)

    def lose(self, error: OSError) -> None:
        """Prints nothing any longer: nobody can read it."""
        self._muted = True
        if not isinstance(error, BrokenPipeError):
            where = ", ".join(self.kept)
            self.tell(f"cannot print any longer ({error.strerror}); the logs go on in {where}")
        discard_output()

    async def __aenter__(self) -> Self:
        self._out = _door(sys.stdout)
        self._err = _door(sys.stderr, self._out)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._out is not None:
            await self._out.outbox.delivered()
            self._look()
            if self._out.outbox.is_left:
                discard_output()
                self.tell(f"left before all was read; the logs are in {', '.join(self.kept)}")
        if self._err is not None:
            try:
                async with asyncio.timeout(PATIENCE):
                    await self._err.outbox.delivered()
            except TimeoutError:
                self._err.outbox.leave()
                discard(sys.stderr)  # what comes now would wait for its reader
        for outbox in {door.outbox for door in (self._out, self._err) if door is not None}:
            outbox.close()
        self._out = self._err = None

    def _look(self) -> None:
        """Notices that the thread could not write."""
        if self._out is not None and self._out.outbox.error is not None and not self._muted:
            self.lose(self._out.outbox.error)


class _BufferedStream(io.TextIOBase):
    """Stands in for a stream: what is written here waits in an outbox for it."""

    def __init__(self, stream: io.TextIOWrapper, outbox: Outbox | None = None) -> None:
        stream.flush()
        self.outbox = outbox or Outbox(stream.fileno())
        self.stream = stream

    def isatty(self) -> bool:
        return self.stream.isatty()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.outbox.put(text.encode(self.stream.encoding, self.stream.errors or "strict"))
        return len(text)


def _door(stream: object, beside: _BufferedStream | None = None) -> _BufferedStream | None:
    """None for what is no file; one that leads to the same place as another goes through its outbox."""
    try:
        if not isinstance(stream, io.TextIOWrapper):
            return None
        # Two who write to one pipe would tear each other's lines.
        return _BufferedStream(
            stream, beside.outbox if beside is not None and one_file(stream, beside.stream) else None
        )
    except OSError:
        return None


class Live:
    """Lines above a panel that is painted a few times a second at most, and only when there is something to paint."""

    def __init__(self, place: terminal.Terminal, hint: str, *, colour: bool) -> None:
        self.jobs: list[Callable[[], Snapshot]] = []
        self._terminal = place
        self._hint = hint
        self._colour = colour
        self._waiting: list[str] = []
        self._outbox: Outbox | None = None
        self._size: terminal.Size | None = None
        self._next = 0.0
        self._otherwise = Lines()
        self.kept = self._otherwise.kept
        self._given_up = False

    @property
    def width(self) -> int | None:
        """As it is now."""
        return self._terminal.size.width

    @property
    def is_behind(self) -> bool:
        """Whether there is much to paint yet."""
        return not self._given_up and not self.is_left and sum(map(len, self._waiting)) > MOST_BYTES

    @property
    def is_left(self) -> bool:
        """As of lines where the view was given up."""
        if self._given_up:
            return self._otherwise.is_left
        return self._outbox is not None and self._outbox.is_left

    def leave(self) -> None:
        """The terminal stays as it is."""
        if self._outbox is not None:
            self._outbox.leave()

    def hurry(self) -> None:
        """As after Ctrl-S."""
        if self._outbox is not None:
            self._outbox.hurry(PATIENCE)

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
        self._stderr, sys.stderr = sys.stderr, _Above(self) if sys.stderr and sys.stderr.isatty() else sys.stderr
        self._outbox = self._terminal.begin_outbox()
        self._painting = asyncio.create_task(self._paint())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._painting.cancel()
        try:
            with suppress(asyncio.CancelledError):
                await self._painting
        finally:
            is_left = await self._end_outbox()
            sys.stderr = self._stderr
            if is_left:
                discard_output()
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTSTP, signal.SIGCONT, signal.SIGQUIT):
                loop.remove_signal_handler(number)

    async def _end_outbox(self) -> bool:
        """Waits until the terminal has all, and gives it back; whether it was left instead."""
        outbox = self._outbox
        assert outbox is not None
        self._show_rest()
        await outbox.delivered()
        self._notice_loss()
        self._leave()
        await outbox.delivered()
        self._terminal.end_outbox()
        self._outbox = None
        return outbox.is_left

    async def _paint(self) -> None:
        await asyncio.sleep(PERIOD)
        self._guarded(self._terminal.open)
        while not self._given_up:
            self._guarded(self.refresh)
            await asyncio.sleep(PERIOD)

    def refresh(self) -> None:
        """Paints if there is something new: lines, another size, a second that has gone by."""
        self._notice_loss()
        if self._outbox is not None and not self._outbox.is_empty:
            return  # the terminal takes nothing now, and would have to show a picture of the past
        size = self._terminal.size
        is_due = self._terminal.is_open and (size != self._size or time.monotonic() >= self._next)
        if not self._waiting and not is_due:
            return
        # Here alone: rich takes longer to load than a replica to be started.
        from tfjob.cli.terminal.panel import paint, panel

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
        self._show_rest()
        with suppress(OSError):
            self._terminal.close()
        if self._outbox is not None:
            self._outbox.wait(PATIENCE)  # what is shown next does not go through it

    def _show_rest(self) -> None:
        if not self._given_up:
            waiting, self._waiting = self._waiting, []
            self._show(waiting, ())

    def _notice_loss(self) -> None:
        if self._outbox is not None and self._outbox.error is not None and not self._given_up:
            self._given_up = True
            self._otherwise.lose(self._outbox.error)

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
