"""The output of an attached run, also when the live view or its terminal fails."""

from __future__ import annotations

import asyncio
import io
import os
import re
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import click
import pytest

from support.golden import Wording
from support.plan.builders import T0
from support.plan.builders import job as built
from tfjob.cli.terminal.screen import Screen
from tfjob.jobs.backend import Record
from tfjob.jobs.progress import Snapshot


class Pty:
    """Both ends of a terminal; `stream` is what a program writes to."""

    def __init__(self) -> None:
        self.ours, theirs = os.openpty()
        self.stream = io.TextIOWrapper(os.fdopen(theirs, "wb"), encoding="utf-8", write_through=True)
        self._read = b""

    def shown(self) -> str:
        """Return everything written so far."""
        os.set_blocking(self.ours, False)
        with suppress(BlockingIOError):
            while piece := os.read(self.ours, 1 << 16):
                self._read += piece
        return self._read.decode()

    @property
    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self.stream.fileno())[3] & termios.ECHO)


@pytest.fixture
def pty() -> Iterator[Pty]:
    """A terminal that is not our controlling terminal."""
    made = Pty()
    yield made
    made.stream.close()
    os.close(made.ours)


class QuickScreen(Screen):
    """A screen that paints often."""

    period = 0.01


class Job:
    """A job without new lines, whose snapshot fails."""

    folder = "/somewhere"

    def look(self) -> list[str]:
        return []

    def finish(self) -> list[str]:
        return []

    def snapshot(self) -> Snapshot:
        raise AssertionError("a fault")


def print_to(pty: Pty, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the terminal stdout."""
    monkeypatch.setattr(sys, "stdout", pty.stream)
    monkeypatch.setenv("TERM", "xterm")


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


def print_one_by_one(pty: Pty, screen: Screen, *texts: str) -> None:
    """Print the next text when the last one is shown; the first one is there before the first painting."""

    async def main() -> None:
        screen.post(texts[0])
        async with screen:
            for text in texts:
                if text is not texts[0]:
                    screen.post(text)
                await until(lambda text=text: click.unstyle(text) in pty.shown())  # type: ignore[misc]

    asyncio.run(main())


def test_a_fault_of_the_view_loses_no_line_and_leaves_the_terminal(
    pty: Pty, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    print_to(pty, monkeypatch)
    print_one_by_one(pty, QuickScreen([Job()]), "first", "second")
    shown = pty.shown()
    assert pty.echoes
    assert shown.endswith("first\r\n\x1b[?25h\x1b[?2026lsecond\r\n")
    told = capsys.readouterr().err
    assert "AssertionError: a fault" in told
    wording(told)


def test_whatever_ends_a_run_the_terminal_is_given_back(pty: Pty, monkeypatch: pytest.MonkeyPatch) -> None:
    print_to(pty, monkeypatch)
    screen = QuickScreen([])

    async def main() -> None:
        async with screen:
            await until(lambda: not pty.echoes)
            screen.post("last words")
            raise KeyError

    with pytest.raises(KeyError):
        asyncio.run(main())
    assert pty.echoes
    shown = pty.shown()
    assert "last words\r\n" in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


def test_a_terminal_that_goes_away_ends_the_printing_and_not_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    pty = Pty()
    print_to(pty, monkeypatch)
    job = Job()
    job.snapshot = lambda: Snapshot(Record(built("mnist"), "mnist.1", "Running", "", created=T0))  # type: ignore[method-assign]
    screen = QuickScreen([job])

    async def main() -> str:
        async with screen:
            await until(lambda: not pty.echoes)
            os.close(pty.ours)
            for text in ("first", "second"):
                screen.post(text)
                await asyncio.sleep(0.05)
        return "the end"

    assert asyncio.run(main()) == "the end"
    told = capsys.readouterr().err
    assert "/somewhere" in told
    wording(told)
    pty.stream.close()


def test_a_terminal_that_takes_nothing_for_a_while_holds_nothing_up_and_misses_no_line(
    pty: Pty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after Ctrl-S: the event loop keeps driving the job."""
    print_to(pty, monkeypatch)
    screen = QuickScreen([])
    shown = b""

    def read() -> None:
        nonlocal shown
        while b"line 1999 " not in shown:
            shown += os.read(pty.ours, 1 << 16)

    async def main() -> None:
        async with screen:
            for number in range(2000):
                screen.post(f"line {number} {'.' * 80}")
            await asyncio.sleep(0.2)  # paintings, which are not read
            reader = asyncio.get_running_loop().run_in_executor(None, read)
        await reader

    asyncio.run(main())
    assert re.findall(rb"line (\d+) ", shown) == [b"%d" % number for number in range(2000)]
    assert pty.echoes


class Pipe:
    """Stdout and stderr that lead to one pipe, as with `2>&1 |`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reader, writer = os.pipe()
        for name, descriptor in (("stdout", writer), ("stderr", os.dup(writer))):
            monkeypatch.setattr(sys, name, io.TextIOWrapper(os.fdopen(descriptor, "wb"), encoding="utf-8"))

    def rest(self) -> bytes:
        """Close both writers and return the rest of the pipe."""
        sys.stdout.close()
        sys.stderr.close()
        with os.fdopen(self.reader, "rb") as file:
            return file.read()


def test_a_reader_that_takes_nothing_is_left_by_who_is_in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later output, also on stderr, does not wait for the reader either."""
    pipe = Pipe(monkeypatch)

    async def main() -> bool:
        async with Screen([]) as screen:
            screen.post("." * 200_000)
            screen.hurries = True
        return True

    assert asyncio.run(main())
    for stream in (sys.stdout, sys.stderr):
        print("." * 200_000, file=stream, flush=True)
    assert len(pipe.rest()) < 200_000


def test_who_is_in_a_hurry_waits_for_a_reader_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `tee` to a slow disk: all of it takes longer than we wait for a stalled reader."""
    pipe = Pipe(monkeypatch)
    read = b""

    def take() -> None:
        nonlocal read
        while b"the end" not in read:
            time.sleep(0.25)
            read += os.read(pipe.reader, 1 << 14)

    async def main() -> None:
        reader = asyncio.get_running_loop().run_in_executor(None, take)
        async with Screen([]) as screen:
            screen.patience = 4.0
            for number in range(4000):
                screen.post(f"line {number} {'.' * 80}")
            screen.post("the end")
            screen.hurries = True
        await reader

    asyncio.run(main())
    assert re.findall(rb"line (\d+) ", read) == [b"%d" % number for number in range(4000)]
    pipe.rest()


def test_lines_of_stdout_and_stderr_do_not_tear_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pipe has complete lines, in the order in which they were printed."""
    pipe = Pipe(monkeypatch)
    said = [f"line {number} {'.' * (number % 977)}" for number in range(5000)]

    def take() -> bytes:
        read = b""
        while not read.endswith(said[-1].encode() + b"\n"):
            read += os.read(pipe.reader, 1 << 12)
        return read

    async def main() -> bytes:
        reader = asyncio.get_running_loop().run_in_executor(None, take)
        async with Screen([]) as screen:
            for number, text in enumerate(said):
                (screen.tell if number % 3 else screen.post)(text)
        return await reader

    assert asyncio.run(main()).decode().splitlines() == said
    pipe.rest()


def test_what_waits_in_the_logs_is_read_when_the_reader_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job is read at the pace of the reader, and everything is printed at the end."""
    pipe = Pipe(monkeypatch)
    job = Job()
    batches = [[f"line {number} {'.' * 10_000}" for number in range(ten, ten + 10)] for ten in range(0, 100, 10)]
    left = list(batches)
    job.look = lambda: left.pop(0) if left else []  # type: ignore[method-assign]
    job.finish = lambda: ["the end"]  # type: ignore[method-assign]

    def take() -> bytes:
        read = b""
        while not read.endswith(b"the end\n"):
            read += os.read(pipe.reader, 1 << 16)
        return read

    async def main() -> bytes:
        async with Screen([job]):
            await asyncio.sleep(0.3)
            assert len(left) >= 8, "a pipe holds less than one batch"
            reader = asyncio.get_running_loop().run_in_executor(None, take)
        return await reader

    read = asyncio.run(main())
    assert re.findall(rb"line (\d+) ", read) == [b"%d" % number for number in range(100)]
    pipe.rest()


def test_what_a_library_says_on_stderr_goes_above_the_panel(pty: Pty, monkeypatch: pytest.MonkeyPatch) -> None:
    print_to(pty, monkeypatch)
    monkeypatch.setattr(sys, "stderr", pty.stream)

    async def main() -> None:
        async with QuickScreen([]):
            print("a warn", end="", file=sys.stderr)
            print("ing", file=sys.stderr)

    asyncio.run(main())
    assert "a warning\r\n" in pty.shown()
    assert sys.stderr is pty.stream


@pytest.mark.parametrize(
    ("term", "plain", "no_color", "is_live"),
    [("xterm", False, "", True), ("xterm", False, "1", True), ("xterm", True, "", False), ("dumb", False, "", False)],
)
def test_a_view_is_shown_where_it_can_be_unless_lines_are_wanted(
    pty: Pty, monkeypatch: pytest.MonkeyPatch, term: str, plain: bool, no_color: str, is_live: bool
) -> None:
    print_to(pty, monkeypatch)
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("NO_COLOR", no_color)
    screen = QuickScreen([], plain=plain)
    assert (screen.width is not None) == is_live
    if is_live and no_color:
        print_one_by_one(pty, screen, "\x1b[31mred\x1b[0m")
        assert "red\r\n" in pty.shown().replace("\x1b[?25l", "\n").splitlines(keepends=True)


def test_an_output_in_another_encoding_gets_lines(pty: Pty, monkeypatch: pytest.MonkeyPatch) -> None:
    print_to(pty, monkeypatch)
    pty.stream.reconfigure(encoding="latin-1")
    assert Screen([]).width is None
