"""The part of a live view that stays: a headline for each job and a row for each replica; pure, lines for a size."""

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
"""States of replicas that nobody needs to look at, the most interesting first; any other comes before them."""
INDENT, GAP = 2, 2
LEAST_DOING = 16
"""Cells that a replica needs to say what it is doing; before it gets fewer, other columns go."""
LEAST_LINES = 6
"""A panel that may not have more has no room for titles and hints."""


class _Column(NamedTuple):
    title: str
    right: bool
    priority: int
    """Those with the highest number go first where there is no room."""


NAME, STATE, RESTARTS, CPU, MEMORY = COLUMNS = (
    _Column("REPLICA", False, 0),
    _Column("STATE", False, 0),
    _Column("RESTARTS", True, 1),
    _Column("CPU", True, 2),
    _Column("MEMORY", True, 2),
)
LEAST = {STATE: 10, CPU: 5, MEMORY: 10}
"""Columns that keep this width, so that the others do not move with every change."""


def panel(jobs: Sequence[Snapshot], now: datetime, width: int, height: int, hint: str = "") -> list[Text]:
    """The lines, none of them wider than the terminal less one; at most half of its height, so that logs have room."""
    width = max(1, width - 1)  # a line that fills a terminal's last column wraps in some and not in others
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
    """`── mnist · Running 3/3 · 1m12s · 1 restart`, with the reason where there is one.

    Not drawn out to the terminal's edge: what is no longer than it must be does not break when the terminal shrinks.
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
    """A row for each replica; of those that do not fit, how many are in which state."""
    if len(job.replicas) <= most:
        return [layout.row(job, replica) for replica in job.replicas]
    if most <= 0:
        return []
    chosen = sorted(job.replicas, key=_calm)[: most - 1]
    shown = {replica.name for replica in chosen}
    rows = [layout.row(job, replica) for replica in job.replicas if replica.name in shown]
    rest = Counter(_state(replica) for replica in job.replicas if replica.name not in shown)
    counts = ", ".join(f"{count} {state}" for state, count in rest.most_common())
    return [*rows, _cut(Text(f"{' ' * INDENT}… {rest.total()} more: {counts}", style="dim"), layout.width)]


class _Layout:
    """How wide each column is, and which have no room."""

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
    """What a replica does, or how it ended."""
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


def _calm(replica: Replica) -> int:
    """How little a replica needs to be looked at."""
    state = _state(replica)
    return CALM.index(state) + 1 if state in CALM else 0


def _cut(text: Text, width: int) -> Text:
    """At most so many cells, with an ellipsis where something is missing."""
    text.truncate(width, overflow="ellipsis")
    return text


def paint(lines: Sequence[Text], *, colour: bool) -> list[Painted]:
    """The lines as a terminal takes them."""
    system: Literal["standard"] | None = "standard" if colour else None
    written = StringIO()
    console = Console(file=written, force_terminal=True, color_system=system, legacy_windows=False)
    console.print(Text("\n").join(lines), end="", soft_wrap=True, highlight=False)
    texts = written.getvalue().split("\n") if lines else []
    return [Painted(text, line.cell_len) for text, line in zip(texts, lines, strict=True)]
