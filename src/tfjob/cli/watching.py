"""`tfjob ps -w`: the list of jobs kept up to date in a terminal, or a line for every change elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from tfjob.cli.shapes import OUTPUT_VERSION, job_shape, print_line
from tfjob.cli.tables import table

if TYPE_CHECKING:
    from tfjob.cli.ps import Columns
    from tfjob.controller.console import Record

PAUSE_SECONDS = 1.0
DELETED = "Deleted"
"""The state that a job is shown in when it has gone."""


def watch_jobs(look: Callable[[], list[Record]], columns: Columns, form: str) -> None:
    """Shows what `look` finds, again and again, until Ctrl-C; `form` is text, name, json or yaml."""
    if form == "text" and sys.stdout.isatty():
        _keep_up_to_date(look, columns)
        return
    known: dict[str, Record] = {}
    widths: list[int] = []
    while True:
        found = {record.uid: record for record in look()}
        news = list(changes(known, found))
        if form == "text":
            widths = _print_rows(news, columns, widths)
        for record in news if form != "text" else ():
            _print(record, columns, form)
        sys.stdout.flush()
        known = found
        time.sleep(PAUSE_SECONDS)


def changes(before: dict[str, Record], now: dict[str, Record]) -> Iterator[Record]:
    """The jobs, by uid, that are new or not as they were, and those that have gone, as deleted ones."""
    from dataclasses import replace

    for uid, record in now.items():
        if uid not in before or _seen(before[uid]) != _seen(record):
            yield record
    for uid, record in before.items():
        if uid not in now:
            yield replace(record, state=DELETED, reason="")


def _seen(record: Record) -> tuple[Any, ...]:
    status = record.job.status
    return record.state, record.reason, status.ready, status.restarts, status.attempt, record.current


def _keep_up_to_date(look: Callable[[], list[Record]], columns: Columns) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    # What does not fit is cut off: a list that wraps or scrolls cannot be written over.
    with Live(console=Console(), auto_refresh=False, vertical_overflow="ellipsis") as live:
        while True:
            records = look()
            shown = table(columns.titles, columns.rows(records)) if records else "no jobs"
            live.update(Text(shown, no_wrap=True, overflow="ellipsis"), refresh=True)
            time.sleep(PAUSE_SECONDS)


def _print_rows(records: Sequence[Record], columns: Columns, widths: list[int]) -> list[int]:
    """Adds rows under those that were printed; returns how wide the columns are by now."""
    rows = columns.rows(records)
    lines = rows if widths else [columns.titles, *rows]
    widths = widths or [0] * len(columns.titles)
    widths = [max(width, *(len(line[at]) for line in lines), 0) for at, width in enumerate(widths)]
    for line in lines:
        click.echo("   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    return widths


def _print(record: Record, columns: Columns, form: str) -> None:
    if form == "name":
        click.echo(columns.name(record))
    else:
        print_line({"apiVersion": OUTPUT_VERSION, "kind": "Job", **job_shape(record)}, form)
