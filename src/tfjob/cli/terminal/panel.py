"""The panel of the live view: a headline per job and a row per replica, for a given size. Pure."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from io import StringIO
from typing import Literal, NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tfjob.cli.terminal.terminal import Painted
from tfjob.jobs.backend import Replica, Usage
from tfjob.jobs.progress import Snapshot
from tfjob.jobs.report import age, size

COLOURS = {
    "Running": "green",
    "Succeeded": "green",
    "Failed": "red",
    "Pending": "yellow",
    "Restarting": "yellow",
    "CrashLoopBackOff": "red",
    "Suspended": "yellow",
}
CALM = ("Running", "Succeeded", "-")
"""States that need no attention, the most interesting first; replicas in any other state are listed before them."""
INDENT, GAP = 2, 2
LEAST_DOING = 16
"""Least width of the last column; to keep it, other columns are dropped."""
LEAST_LINES = 6
"""A panel with fewer lines has no titles and no hint."""


class _Column(NamedTuple):
    title: str
    right: bool
    priority: int
    """Columns with the highest number are dropped first."""


NAME, STATE, RESTARTS, CPU, MEMORY = COLUMNS = (
    _Column("REPLICA", False, 0),
    _Column("STATE", False, 0),
    _Column("RESTARTS", True, 1),
    _Column("CPU", True, 2),
    _Column("MEMORY", True, 2),
)
LEAST = {STATE: 10, CPU: 5, MEMORY: 10}
"""Least widths, so that columns do not move with every change."""


def panel(jobs: Sequence[Snapshot], now: datetime, width: int, height: int, hint: str = "") -> list[Text]:
    """Return the lines: narrower than the terminal, and at most half of its height, to leave room for logs."""
    width = max(1, width - 1)  # some terminals wrap a line that fills the last column
    most = max(1, height // 2)
    told = jobs if len(jobs) <= most else jobs[: most - 1]
    hidden = len(jobs) - len(told)
    roomy = most >= LEAST_LINES
    left = most - len(told) - bool(hidden) - 2 * roomy
    names = [replica.name for job in told for replica in job.replicas]
    layout = _Layout(names, [_state(replica) for job in told for replica in job.replicas], width)
    lines: list[Text] = []
    for number, job in enumerate(told):
        lines.append(_headline(job, now, width))
        if roomy and number == 0:
            lines.append(layout.titles())
        rows = _rows(job, layout, max(0, left) // (len(told) - number))
        left -= len(rows)
        lines += rows
    if hidden:
        lines.append(_cut(Text(f"… {hidden} more jobs", style="dim"), width))
    if roomy and hint:
        lines.append(_cut(Text(hint, style="dim"), width))
    return lines


def _headline(job: Snapshot, now: datetime, width: int) -> Text:
    """Return `── mnist · Running 3/3 · 1m12s · 1 restart` and the reason, if there is one.

    The rule does not extend to the edge of the terminal: a short line does not wrap when the terminal shrinks.
    """
    record = job.record
    status = record.status
    parts = [
        Text(record.name, style="bold"),
        Text(f"{record.state} {status.ready}".rstrip(), style=COLOURS.get(record.state, "")),
        Text(age(record.created, now)),
    ]
    if status.restarts:
        parts.append(Text(f"{status.restarts} restart{'s' if status.restarts > 1 else ''}", style="yellow"))
    reason = record.reason if record.reason != record.state else ""
    if why := ": ".join(filter(None, (reason, " ".join((status.message or record.note).split())))):
        parts.append(Text(why))
    return _cut(Text.assemble(("── ", "dim"), Text(" · ").join(parts)), width)


def _rows(job: Snapshot, layout: _Layout, most: int) -> list[Text]:
    if len(job.replicas) <= most:
        return [layout.row(job, replica) for replica in job.replicas]
    if most <= 0:
        return []
    ranks = {state: rank for rank, state in enumerate(CALM, 1)}
    chosen = sorted(job.replicas, key=lambda replica: ranks.get(_state(replica), 0))[: most - 1]
    shown = {replica.name for replica in chosen}
    rows = [layout.row(job, replica) for replica in job.replicas if replica.name in shown]
    rest = Counter(_state(replica) for replica in job.replicas if replica.name not in shown)
    counts = ", ".join(f"{count} {state}" for state, count in rest.most_common())
    return [*rows, _cut(Text(f"{' ' * INDENT}… {rest.total()} more: {counts}", style="dim"), layout.width)]


class _Layout:
    """The widths of the columns that fit."""

    def __init__(self, names: Sequence[str], states: Sequence[str], width: int) -> None:
        self.width = width
        widths = {column: max(len(column.title), LEAST.get(column, 0)) for column in COLUMNS}
        widths[NAME] = min(max(map(cell_len, (NAME.title, *names))), max(8, width // 3))
        widths[STATE] = max(LEAST[STATE], min(max(map(len, states), default=0), width // 4))
        for priority in (2, 1, 0):
            self.widths = {column: widths[column] for column in COLUMNS if column.priority <= priority}
            self.left = width - INDENT - sum(cells + GAP for cells in self.widths.values())
            if self.left >= LEAST_DOING:
                break

    def titles(self) -> Text:
        cells = {column: Text(column.title) for column in COLUMNS}
        line = self._line(cells, Text("STEP OR LAST LINE" if self.left > len("STEP OR LAST LINE") else "STEP"))
        line.stylize("dim")
        return line

    def row(self, job: Snapshot, replica: Replica) -> Text:
        usage = job.usage.get(replica.name, Usage(None, None))
        restarts = max(0, replica.attempts - 1)
        state = _state(replica)
        return self._line(
            {
                NAME: Text(replica.name),
                STATE: Text(state, style=COLOURS.get(state, "")),
                RESTARTS: Text(str(restarts), style="yellow" if restarts else "dim"),
                CPU: Text("-" if usage.cpu is None else f"{usage.cpu:.0%}"),
                MEMORY: Text("-" if usage.memory is None else size(usage.memory)),
            },
            _doing(replica, job.doing.get(replica.name, "")),
        )

    def _line(self, cells: dict[_Column, Text], doing: Text) -> Text:
        line = Text(" " * INDENT)
        for column, width in self.widths.items():
            cell = _cut(cells[column], width)
            blank = " " * (width - cell.cell_len)
            line.append(blank if column.right else "").append_text(cell).append("" if column.right else blank)
            line.append(" " * GAP)
        line.append_text(_cut(doing, max(0, self.left)))
        line.rstrip()
        return _cut(line, self.width)


def _doing(replica: Replica, words: str) -> Text:
    if replica.exit_code is None or replica.phase == "Running":
        return Text(words)
    ended = _ended(replica.exit_code)
    return Text(f"{ended}: {words}" if words and replica.exit_code else words or ended)


def _ended(code: int) -> str:
    try:
        return f"killed by {signal.Signals(code - 128).name}" if code > 128 else f"exited {code}"
    except ValueError:
        return f"exited {code}"


def _state(replica: Replica) -> str:
    return replica.shown or replica.phase


def _cut(text: Text, width: int) -> Text:
    text.truncate(width, overflow="ellipsis")
    return text


def paint(lines: Sequence[Text], *, colour: bool) -> list[Painted]:
    system: Literal["standard"] | None = "standard" if colour else None
    written = StringIO()
    console = Console(file=written, force_terminal=True, color_system=system, legacy_windows=False)
    console.print(Text("\n").join(lines), end="", soft_wrap=True, highlight=False)
    texts = written.getvalue().split("\n") if lines else []
    return [Painted(text, line.cell_len) for text, line in zip(texts, lines, strict=True)]
