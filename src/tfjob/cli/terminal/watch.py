"""`tfjob ps -w`: a list of jobs that stays up to date in a terminal; other output gets a line per change."""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from tfjob.cli.output import print_object
from tfjob.errors import UserError
from tfjob.jobs.output import job_shape
from tfjob.jobs.report import table

if TYPE_CHECKING:
    from tfjob.cli.terminal.job_table import Columns
    from tfjob.cli.terminal.terminal import Painted, Terminal
    from tfjob.jobs.backend import Record

T = TypeVar("T")

PAUSE_SECONDS = 1.0
DELETED = "Deleted"
"""The state shown for a job that is gone."""


def watch_jobs(look: Callable[[], list[Record]], columns: Columns, form: str) -> None:
    """Show what `look` returns, once per second, until Ctrl-C; `form` is text, name, json or yaml."""
    from tfjob.cli.terminal import terminal

    if form == "text" and isinstance(sys.stdout, io.TextIOWrapper) and terminal.suits(sys.stdout):
        write = partial(print, end="", flush=True)
        Kept(terminal.Terminal(sys.stdout, write), columns.titles).show(lambda: columns.rows(look()))
    records = look()
    known: dict[str, Record] = {}
    widths: list[int] = []
    silent = ""
    while True:
        found = {record.uid: record for record in records}
        news = list(changes(known, found))
        if form == "text":
            widths = _print_rows(news, columns, widths)
        for record in news if form == "name" else ():
            click.echo(columns.name(record))
        for record in news if form in ("json", "yaml") else ():
            print_object("Job", job_shape(record), form, is_line=True)
        sys.stdout.flush()
        known = found
        time.sleep(PAUSE_SECONDS)
        records, trouble = again(look, records)
        if trouble and not silent:
            click.echo(trouble, err=True)
        silent = trouble


def again(look: Callable[[], T], before: T) -> tuple[T, str]:
    """Return the result of `look`, or after a transient error the previous result and the error."""
    try:
        return look(), ""
    except UserError as error:
        if not error.is_transient:
            raise
        return before, f"{error.message}; retrying"


def changes(before: dict[str, Record], now: dict[str, Record]) -> Iterator[Record]:
    """Return the jobs that are new or changed, and those that are gone with the state Deleted."""
    from dataclasses import replace

    for uid, record in now.items():
        if uid not in before or _seen(before[uid]) != _seen(record):
            yield record
    for uid, record in before.items():
        if uid not in now:
            yield replace(record, state=DELETED, reason="")


def _seen(record: Record) -> tuple[Any, ...]:
    status = record.status
    return record.state, record.reason, status.ready, status.restarts, status.attempt, record.current


class Kept:
    """A list that stays up to date at the end of a terminal; if it does not fit, the oldest jobs are left out."""

    def __init__(self, place: Terminal, titles: Sequence[str]) -> None:
        self._terminal = place
        self._titles = titles
        self._rows: list[list[str]] = []
        self._trouble = ""
        self._shown: list[Painted] = []
        self._painting = self._resting = False

    def show(self, look: Callable[[], list[list[str]]]) -> NoReturn:
        """Paint the list once per second until a signal ends it; the last list stays visible."""
        self._rows = look()
        signal.signal(signal.SIGTSTP, self._rest)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, self._end)
        try:
            while True:
                self._paint()
                time.sleep(PAUSE_SECONDS)
                self._rows, self._trouble = again(look, self._rows)
        finally:
            self._leave()

    def _paint(self) -> None:
        self._terminal.open()
        if not self._terminal.is_open:
            return  # another program is in the foreground
        self._shown = listed(self._titles, self._rows, self._trouble, self._terminal.size)
        self._painting = True
        self._terminal.show((), self._shown)
        self._painting = False
        if self._resting:
            self._rest()

    def _leave(self) -> None:
        if self._terminal.is_open:
            try:
                self._terminal.show([line.text for line in self._shown], ())
                self._terminal.close()
            finally:
                self._terminal.give_back()

    def _rest(self, *_: object) -> None:
        """Ctrl-Z: restore the terminal and stop, but finish a painting first."""
        self._resting = self._painting
        if not self._resting:
            self._leave()
            os.kill(os.getpid(), signal.SIGSTOP)

    def _end(self, number: int, _: object) -> None:
        """Restore the terminal and end by the signal; in the middle of a painting, write nothing more."""
        if not self._painting:
            with suppress(OSError, RuntimeError):  # the terminal is gone, or is being written to
                self._leave()
        self._terminal.give_back()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def listed(titles: Sequence[str], rows: Sequence[Sequence[str]], trouble: str, size: os.terminal_size) -> list[Painted]:
    from rich.text import Text

    from tfjob.cli.terminal.terminal import Painted

    room = max(2, size.lines - 2 - bool(trouble))  # less a row for the titles and one for the prompt
    left = 0 if len(rows) <= room else len(rows) - (room - 1)
    head, *tail = table(titles, rows[left:]).split("\n")
    lines = [head, *([f"… {left} more"] if left else []), *tail] if rows else ["no jobs"]
    painted = []
    for line in [*lines, *([trouble] if trouble else [])]:
        text = Text(line)
        text.truncate(size.columns, overflow="ellipsis")
        painted.append(Painted(text.plain, text.cell_len))
    return painted


def _print_rows(records: Sequence[Record], columns: Columns, widths: list[int]) -> list[int]:
    rows = columns.rows(records)
    lines = rows if widths else [columns.titles, *rows]
    widths = widths or [0] * len(columns.titles)
    widths = [max(width, *(len(line[at]) for line in lines), 0) for at, width in enumerate(widths)]
    for line in lines:
        click.echo("   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    return widths
