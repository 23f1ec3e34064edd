"""Where an attached run prints, and what becomes of it when the view or its terminal fails."""

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
from tfjob.cli.terminal import screen as module
from tfjob.cli.terminal.screen import Lines, Live, screen_for
from tfjob.cli.terminal.terminal import Terminal
from tfjob.jobs.progress import Snapshot


class Pty:
    """Both ends of a terminal; `stream` is what a program writes to."""

    def __init__(self) -> None:
        self.ours, theirs = os.openpty()
        self.stream = io.TextIOWrapper(os.fdopen(theirs, "wb"), encoding="utf-8", write_through=True)
        self._read = b""

    def shown(self) -> str:
        """All that was written so far."""
        os.set_blocking(self.ours, False)
        with suppress(BlockingIOError):
            while piece := os.read(self.ours, 1 << 16):
                self._read += piece
        return self._read.decode()

    @property
    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self.stream.fileno())[3] & termios.ECHO)


@pytest.fixture
def pty(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pty]:
    """A terminal that does not control us."""
    made = Pty()
    monkeypatch.setattr(module, "PERIOD", 0.01)
    yield made
    made.stream.close()
    os.close(made.ours)


def nothing() -> Snapshot:
    raise AssertionError("a fault")


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


def in_view(pty: Pty, live: Live, job: Callable[[], Snapshot], *printed: str) -> None:
    """Print the next text when the last one is shown."""

    async def main() -> None:
        live.jobs.append(job)
        async with live:
            for text in printed:
                live.print(text)
                await until(lambda text=text: click.unstyle(text) in pty.shown())  # type: ignore[misc]

    asyncio.run(main())


def test_a_fault_of_the_view_loses_no_line_and_leaves_the_terminal(
    pty: Pty, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    monkeypatch.setattr(sys, "stdout", pty.stream)
    in_view(pty, Live(Terminal(pty.stream), "", colour=True), nothing, "first", "second")
    shown = pty.shown()
    assert pty.echoes
    assert shown.endswith("first\r\n\x1b[?25h\x1b[?2026lsecond\r\n")
    told = capsys.readouterr().err
    assert "AssertionError: a fault" in told
    wording(told)


def test_whatever_ends_a_run_the_terminal_is_given_back(pty: Pty) -> None:
    live = Live(Terminal(pty.stream), "", colour=True)

    async def main() -> None:
        async with live:
            await until(lambda: not pty.echoes)
            live.print("last words")
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
    monkeypatch.setattr(sys, "stdout", pty.stream)
    monkeypatch.setattr(module, "PERIOD", 0.01)
    live = Live(Terminal(pty.stream), "", colour=True)
    live.kept.append("/somewhere")

    async def main() -> str:
        async with live:
            await until(lambda: not pty.echoes)
            os.close(pty.ours)
            for text in ("first", "second"):
                live.print(text)
                await asyncio.sleep(0.05)
        return "the end"

    assert asyncio.run(main()) == "the end"
    told = capsys.readouterr().err
    assert "/somewhere" in told
    wording(told)
    pty.stream.close()


def test_a_terminal_that_takes_nothing_for_a_while_holds_nothing_up_and_misses_no_line(pty: Pty) -> None:
    """As after Ctrl-S: what drives the job has the same event loop."""
    live = Live(Terminal(pty.stream), "", colour=True)
    shown = b""

    def read() -> None:
        nonlocal shown
        while b"line 1999 " not in shown:
            shown += os.read(pty.ours, 1 << 16)

    async def main() -> None:
        async with live:
            for number in range(2000):
                live.print(f"line {number} {'.' * 80}")
            await asyncio.sleep(0.2)  # paintings, which nobody reads
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
        """What is in it when nobody writes any longer."""
        sys.stdout.close()
        sys.stderr.close()
        with os.fdopen(self.reader, "rb") as file:
            return file.read()


def test_a_reader_that_takes_nothing_is_left_by_who_is_in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes later, on stderr too, does not wait for it either."""
    pipe = Pipe(monkeypatch)

    async def main() -> bool:
        async with Lines() as lines:
            lines.print("." * 200_000)
            assert not lines.is_left
            lines.hurry()
            while not lines.is_left:
                await asyncio.sleep(0.01)
        return True

    assert asyncio.run(main())
    for stream in (sys.stdout, sys.stderr):
        print("." * 200_000, file=stream, flush=True)
    assert len(pipe.rest()) < 200_000


def test_who_is_in_a_hurry_waits_for_a_reader_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `tee` to a slow disk: it takes longer for all than anybody has patience with one that takes nothing."""
    pipe = Pipe(monkeypatch)
    monkeypatch.setattr(module, "PATIENCE", 2.0)
    read = b""

    def take() -> None:
        nonlocal read
        while b"the end" not in read:
            time.sleep(0.15)
            read += os.read(pipe.reader, 1 << 14)

    async def main() -> None:
        reader = asyncio.get_running_loop().run_in_executor(None, take)
        async with Lines() as lines:
            for number in range(4000):
                lines.print(f"line {number} {'.' * 80}")
            lines.print("the end")
            lines.hurry()
        await reader

    asyncio.run(main())
    assert re.findall(rb"line (\d+) ", read) == [b"%d" % number for number in range(4000)]
    pipe.rest()


def test_lines_of_stdout_and_stderr_do_not_tear_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """They come out of one pipe whole, and in the order in which they were printed."""
    pipe = Pipe(monkeypatch)
    said = [f"line {number} {'.' * (number % 977)}" for number in range(5000)]

    def take() -> bytes:
        read = b""
        while not read.endswith(said[-1].encode() + b"\n"):
            read += os.read(pipe.reader, 1 << 12)
        return read

    async def main() -> bytes:
        reader = asyncio.get_running_loop().run_in_executor(None, take)
        async with Lines() as lines:
            for number, text in enumerate(said):
                (lines.tell if number % 3 else lines.print)(text)
        return await reader

    assert asyncio.run(main()).decode().splitlines() == said
    pipe.rest()


def test_what_a_library_says_on_stderr_goes_above_the_panel(pty: Pty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", pty.stream)
    live = Live(Terminal(pty.stream), "", colour=False)

    async def main() -> None:
        async with live:
            print("a warn", end="", file=sys.stderr)
            print("ing", file=sys.stderr)

    asyncio.run(main())
    assert "a warning\r\n" in pty.shown()
    assert sys.stderr is pty.stream


@pytest.mark.parametrize(
    ("term", "plain", "no_color", "kind"),
    [("xterm", False, "", Live), ("xterm", False, "1", Live), ("xterm", True, "", Lines), ("dumb", False, "", Lines)],
)
def test_a_view_is_shown_where_it_can_be_unless_lines_are_wanted(
    pty: Pty, monkeypatch: pytest.MonkeyPatch, term: str, plain: bool, no_color: str, kind: type
) -> None:
    monkeypatch.setattr(sys, "stdout", pty.stream)
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("NO_COLOR", no_color)
    chosen = screen_for(plain=plain, hint="")
    assert type(chosen) is kind
    if isinstance(chosen, Live) and no_color:
        in_view(pty, chosen, lambda: nothing(), "\x1b[31mred\x1b[0m")
        assert "red\r\n" in pty.shown().replace("\x1b[?25l", "\n").splitlines(keepends=True)


def test_an_output_in_another_encoding_gets_lines(monkeypatch: pytest.MonkeyPatch, pty: Pty) -> None:
    monkeypatch.setattr(sys, "stdout", pty.stream)
    monkeypatch.setenv("TERM", "xterm")
    pty.stream.reconfigure(encoding="latin-1")
    assert isinstance(screen_for(plain=False, hint=""), Lines)
