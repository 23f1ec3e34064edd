"""Text about jobs for people: how a run ended, what to type next, tables, times and sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import click

from tfjob.api.types import Verdict
from tfjob.jobs.backend import Record


def ending(record: Record) -> str:
    """The last lines of an attached run: its end, and the verdict if it failed."""
    status, name = record.job.status, record.name
    time = took(record.created, status.completion_time)
    curves = f"\n  its curves: {_show_curves(record)}" if record.job.spec.tensor_board else ""
    if status.state == "Succeeded":
        restarts = f", {status.restarts} restart{'s' if status.restarts > 1 else ''}" if status.restarts else ""
        return click.style(f"{name} succeeded", fg="green") + f" in {time}{restarts}: {status.message}{curves}"
    if status.state == "Failed":
        told = ": ".join(filter(None, (status.reason, status.message)))
        why = verdict(status.failure, status.reason) if status.failure else told or "nobody said why"
        return click.style(f"{name} failed", fg="red") + f" after {time}: {why}{curves}"
    because = f" ({record.reason})" if record.reason not in ("", record.state) else ""
    return f"{name} is {record.state}{because}; continue it with: tfjob resume {name}{record.options}"


def verdict(failure: Verdict, reason: str = "") -> str:
    """Why a job failed, with the last lines of the replica that failed first."""
    why = f" [{reason}]" if reason and reason not in ("ReplicaFailed", failure.reason) else ""
    told = all(line in failure.message for line in failure.last_lines)
    lines = "" if told else "".join(f"\n    {line}" for line in failure.last_lines)
    said = f"\n  the last lines of {failure.replica}:{lines}" if lines else ""
    attempt = f" (attempt {failure.attempt})" if failure.attempt > 1 else ""
    return f"{failure.message}{attempt}{why}{said}"


def _show_curves(record: Record) -> str:
    return f"tfjob tensorboard {record.name}{record.options}"


def next_commands(record: Record) -> str:
    """What a user may want after a job went to the background."""
    name = record.name
    commands = {
        f"tfjob logs {name} -f{record.options}": "its logs",
        f"tfjob status {name}{record.options}": "how it stands",
        f"tfjob wait {name}{record.options}": "until it ends",
        f"tfjob stop {name}{record.options}": "stop it",
    }
    if record.job.spec.tensor_board:
        commands[_show_curves(record)] = "its curves"
    known = f" as {record.id}" if record.id != name else ""
    return "\n".join([f"{click.style(name, bold=True)} runs in the background{known}", *_listed(commands)])


def guidance(record: Record, storage: str, width: int) -> str:
    """After an attached run in a terminal: where its files and its own storage are, and a box of what to type next."""
    name, failure = record.name, record.job.status.failure
    commands = {}
    if record.state == "Suspended":
        commands[f"tfjob resume {name}{record.options}"] = "continue it"
    replica = f" {failure.replica}" if failure and failure.replica else ""
    commands[f"tfjob logs {name}{replica}{record.options}"] = "all that it said" if replica else "its logs"
    commands[f"tfjob status {name}{record.options}"] = "its replicas and attempts"
    if record.state == "Failed":
        commands[f"tfjob events {name}{record.options}"] = "what happened, in order"
    if record.job.spec.tensor_board:
        commands[_show_curves(record)] = "its curves"
    commands[f"tfjob delete {name}{record.options}"] = "remove it and its logs"
    places = [f"  {what:<5}  {place}" for what, place in (("files", record.folder), ("data", storage)) if place]
    return "\n".join([*places, *_boxed("next", _listed(commands), width)])


def _listed(commands: Mapping[str, str]) -> list[str]:
    """Commands and what each does, in two columns."""
    width = max(map(len, commands))
    return [f"  {command:<{width}}   {words}" for command, words in commands.items()]


def _boxed(title: str, lines: Sequence[str], width: int) -> list[str]:
    """Lines in a frame; as they are where the terminal is too narrow for it."""
    inner = max(map(len, lines)) + 2
    if inner + 2 > width:
        return list(lines)
    top = f"╭─ {title} {'─' * (inner - len(title) - 3)}╮"
    return [top, *(f"│{line:<{inner}}│" for line in lines), f"╰{'─' * inner}╯"]


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, three spaces apart."""
    widths = [max(len(row[column]) for row in (titles, *rows)) for column in range(len(titles))]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (titles, *rows))
    return "\n".join(line.rstrip() for line in lines)


def age(since: datetime | None, until: datetime | None = None) -> str:
    """How long ago: `5s`, `3m12s`, `2h4m`, `3d2h`."""
    if since is None:
        return "-"
    return span((until or datetime.now(UTC)) - since)


def span(length: timedelta) -> str:
    """A time span in at most two units."""
    seconds = max(0, int(length.total_seconds()))
    parts: list[str] = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        if seconds >= size or (unit == "s" and not parts):
            parts.append(f"{seconds // size}{unit}")
            seconds %= size
    return "".join(parts[:2])


def took(since: datetime, until: datetime | None) -> str:
    """How long something lasted; short times with a decimal."""
    length = (until or datetime.now(UTC)) - since
    return f"{length.total_seconds():.1f}s" if length < timedelta(seconds=10) else span(length)


def clock(time: datetime | None) -> str:
    """A moment, in UTC, as logs write it."""
    return f"{time:%Y-%m-%d %H:%M:%S}" if time else "-"


def size(count: int) -> str:
    """Bytes as people read them."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")
