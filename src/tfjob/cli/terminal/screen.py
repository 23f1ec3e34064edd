"""The output of an attached run: a thread reads new lines and prints them at the pace of the reader.

A slow reader does not delay the jobs: their lines wait in the logs. In a terminal, the thread also paints the live
view: the same lines above a panel.
"""

from __future__ import annotations

import asyncio
import errno
import io
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol, Self, TextIO

import click

from tfjob.cli.exit_codes import colour, discard_output, one_file
from tfjob.cli.terminal import terminal
from tfjob.jobs.progress import Snapshot

PIECE = select.PIPE_BUF
"""Bytes that a pipe accepts atomically: shorter lines are not mixed with those of other writers."""


class Shown(Protocol):
    """What a screen shows: `look` returns new lines, and `finish` what is left at the end."""

    folder: str

    def look(self) -> Sequence[str]: ...

    def finish(self) -> Sequence[str]: ...

    def snapshot(self) -> Snapshot: ...


class Writer:
    """Writes to a stream without Python's buffers, whose locks a stalled reader would block."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        stream.flush()
        self._stream = stream
        # A copy, because `discard_output` redirects the original while a write may still be in progress.
        self._descriptor = os.dup(stream.fileno())
        self.taken = 0
        self.is_waiting = False
        self.is_left = False
        self.error: OSError | None = None

    @property
    def is_open(self) -> bool:
        return not self.is_left and self.error is None

    def write(self, text: str) -> None:
        """Return when everything is written, or the reader is gone, or we gave up on it."""
        data, start = text.encode(self._stream.encoding, self._stream.errors or "strict"), 0
        self.is_waiting = True
        while start < len(data) and self.is_open:
            end = data.rfind(b"\n", start, start + PIECE) + 1 or start + PIECE
            try:
                start += os.write(self._descriptor, data[start:end])
                self.taken += 1
            except BlockingIOError:  # another program made the descriptor non-blocking
                select.select([], [self._descriptor], [])
            except OSError as error:
                self.error = error
        self.is_waiting = False

    def look_for_reader(self) -> None:
        """Notice that a pipe has lost its reader, without writing to it."""
        poll = select.poll()
        poll.register(self._descriptor, 0)
        if [event for _, event in poll.poll(0)] == [select.POLLERR]:
            self.error = BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def close(self) -> None:
        os.close(self._descriptor)


class Screen:
    """Shows jobs within `async with`; calls `on_reader_gone` when the output pipe loses its reader."""

    period = 0.15
    """Seconds between two paintings, and before the first, while replicas start."""
    clock = 1.0
    """Seconds between two paintings if nothing was reported, to update the clock and the usage."""
    patience = 1.0
    """Seconds without any reading after which an interrupted run gives up on its reader."""

    def __init__(self, shown: Sequence[Shown], *, plain: bool = False) -> None:
        """Show a live view if the output can, unless `plain`; `hint` returns its last line."""
        self._shown = shown
        self.hint: Callable[[], str] = str
        stream = sys.stdout
        self._writer: Writer | None = None
        self._view: terminal.Terminal | None = None
        with suppress(OSError):  # not a file
            self._writer = Writer(stream) if isinstance(stream, io.TextIOWrapper) else None
        if self._writer is not None and not plain and terminal.suits(stream):
            self._view = terminal.Terminal(stream, self._writer.write)
        self.width = self._view.size.columns if self._view is not None else None
        """The width of the terminal that shows a live view."""
        self.hurries = False
        """Whether to give up, at the end, on a reader that stalls."""
        self.on_reader_gone: Callable[[], None] = lambda: None
        self._colour = colour() is not False and self._writer is not None and stream.isatty()
        self._folders = ", ".join(one.folder for one in shown)
        self._stderr, self._shares = sys.stderr, one_file(stream, sys.stderr)
        self._posted: deque[str] = deque()
        self._wake, self._over, self._painting = threading.Event(), threading.Event(), threading.Lock()
        self._size: os.terminal_size | None = None
        self._next = 0.0
        self._error: BaseException | None = None
        # A daemon, because a blocked write must not keep the process alive.
        self._thread = threading.Thread(target=self._show_all, name="screen", daemon=True)

    def wake(self) -> None:
        self._wake.set()

    def post(self, text: str) -> None:
        """Print a line together with the next new lines."""
        self._posted.append(text)
        self._wake.set()

    def tell(self, text: str) -> None:
        """Print a line on stderr or, if stdout has the same reader or a panel, together with the other lines."""
        if (self._shares or self._view is not None) and self._writer is not None and self._writer.is_open:
            self.post(text)
        elif self._stderr is not None and _takes_more(self._stderr):
            click.echo(text, file=self._stderr)

    def leave(self) -> None:
        """Give up on the reader: print nothing more."""
        if self._writer is not None:
            self._writer.is_left = True
        self._done.set()

    async def __aenter__(self) -> Self:
        self._done = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if self._view is not None:
            self._loop.add_signal_handler(signal.SIGTSTP, self._rest, signal.SIGSTOP)
            self._loop.add_signal_handler(signal.SIGCONT, self._wake.set)
            self._loop.add_signal_handler(signal.SIGQUIT, self._rest, signal.SIGQUIT)
            if sys.stderr is not None and sys.stderr.isatty():
                sys.stderr = _Above(self)
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Wait until everything is printed, and restore the terminal."""
        self._over.set()
        self._wake.set()
        taken, since = -1, 0.0
        while not self._done.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self.patience / 20):
                    await self._done.wait()
            if self._writer is not None and (self._writer.taken != taken or not self._writer.is_waiting):
                taken, since = self._writer.taken, time.monotonic()
            elif self.hurries and time.monotonic() - since >= self.patience:
                self.leave()
        sys.stderr = self._stderr
        if self._view is not None:
            self._view.give_back()
            for number in (signal.SIGTSTP, signal.SIGCONT, signal.SIGQUIT):
                self._loop.remove_signal_handler(number)
        if self._writer is not None and self._writer.is_left:
            discard_output()
            self.tell(f"stopped printing before the end; the full logs are in {self._folders}")
        else:
            self._thread.join()
        if self._error is not None:
            raise self._error

    # --- the thread ---------------------------------------------------------------------------------------------

    def _show_all(self) -> None:
        try:
            self._show_until_over()
            if self._writer is not None and self._writer.error is not None:
                self._lose(self._writer.error)
        except BaseException as error:
            self._error = error
        finally:
            if self._writer is not None:
                self._writer.close()
            with suppress(RuntimeError):  # the event loop has already ended
                self._loop.call_soon_threadsafe(self._done.set)

    def _show_until_over(self) -> None:
        if self._view is not None:
            self._over.wait(self.period)
        while self._writer is not None and self._writer.is_open:
            self._wake.clear()
            is_over = self._over.is_set()
            texts = self._look()
            if is_over and not texts:
                self._print([*(text for one in self._shown for text in one.finish()), *self._look()], last=True)
                return
            self._print(texts)
            if self._view is not None:
                self._over.wait(self.period)
            if not texts and not is_over:
                self._wake.wait(self.clock)
                self._writer.look_for_reader()

    def _look(self) -> list[str]:
        posted = [self._posted.popleft() for _ in range(len(self._posted))]
        return [*posted, *(text for one in self._shown for text in one.look())]

    def _print(self, texts: Sequence[str], *, last: bool = False) -> None:
        lines = texts if self._colour else [click.unstyle(text) for text in texts]
        view = self._view
        if view is None:
            assert self._writer is not None
            self._writer.write("".join(f"{line}\n" for line in lines))
            return
        with self._painting:
            try:
                self._paint(view, lines, last=last)
            except Exception as error:
                # Jobs and their lines do not depend on the view: continue without it.
                self._view = None
                view.show(lines, ())
                view.close()
                self.tell(f"the live view failed ({type(error).__name__}: {error}); printing plain lines")
                if os.environ.get("TFJOB_DEBUG"):
                    self.tell(traceback.format_exc())

    def _paint(self, view: terminal.Terminal, lines: Sequence[str], *, last: bool) -> None:
        """Paint if there are new lines, another terminal size, or a second has passed."""
        if last:
            view.show(lines, ())
            view.close()
            return
        view.open()
        size = view.size
        if not lines and not (view.is_open and (size != self._size or time.monotonic() >= self._next)):
            return
        # Imported late, because rich takes longer to load than a replica to start.
        from tfjob.cli.terminal.panel import paint, panel

        jobs = [one.snapshot() for one in self._shown]
        painted = paint(panel(jobs, datetime.now(UTC), *size, self.hint()), colour=self._colour)
        self._size, self._next = size, time.monotonic() + self.clock
        view.show(lines, painted)

    def _lose(self, error: OSError) -> None:
        """Stop printing, because the output cannot be written."""
        discard_output()
        if isinstance(error, BrokenPipeError):
            self._loop.call_soon_threadsafe(self.on_reader_gone)
        else:
            self.tell(f"cannot write the output ({error.strerror}); the logs continue in {self._folders}")

    # --- signals ------------------------------------------------------------------------------------------------

    def _rest(self, number: int) -> None:
        """Restore the terminal for the shell, then let the signal take its usual effect."""
        is_ours = self._painting.acquire(timeout=self.patience)
        try:
            if self._view is not None:
                self._view.close() if is_ours else self._view.give_back()
            self._size = None  # after a pause, the terminal shows something else: paint again
            if number == signal.SIGQUIT:
                self._loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        finally:
            if is_ours:
                self._painting.release()


def _takes_more(stream: TextIO) -> bool:
    """Return whether a short line can be written without waiting for the reader."""
    try:
        return bool(select.select([], [stream], [], 0)[1])
    except (OSError, ValueError):  # not a file
        return True


class _Above(io.TextIOBase):
    """Replaces stderr, so that warnings of libraries appear above the panel."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._begun = ""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *whole, self._begun = (self._begun + text).split("\n")
        for line in whole:
            self._screen.post(line)
        return len(text)
