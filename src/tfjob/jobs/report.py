"""Text for users: why a run failed, tables, times and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from tfjob.api.types import Verdict


def verdict(failure: Verdict, reason: str = "") -> str:
    why = f" [{reason}]" if reason and reason not in ("ReplicaFailed", failure.reason) else ""
    told = all(line in failure.message for line in failure.last_lines)
    lines = "" if told else "".join(f"\n    {line}" for line in failure.last_lines)
    said = f"\n  last lines of {failure.replica}:{lines}" if lines else ""
    attempt = f" (attempt {failure.attempt})" if failure.attempt > 1 else ""
    advice = f"\n  advice: {failure.advice}" if failure.advice else ""
    return f"{failure.message}{attempt}{why}{said}{advice}"


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in (titles, *rows)) for column in range(len(titles))]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (titles, *rows))
    return "\n".join(line.rstrip() for line in lines)


def age(since: datetime | None, until: datetime | None = None) -> str:
    if since is None:
        return "-"
    return span((until or datetime.now(UTC)) - since)


def span(length: timedelta) -> str:
    seconds = max(0, int(length.total_seconds()))
    parts: list[str] = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        if seconds >= size or (unit == "s" and not parts):
            parts.append(f"{seconds // size}{unit}")
            seconds %= size
    return "".join(parts[:2])


def took(since: datetime, until: datetime | None) -> str:
    length = (until or datetime.now(UTC)) - since
    return f"{length.total_seconds():.1f}s" if length < timedelta(seconds=10) else span(length)


def clock(time: datetime | None) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}" if time else "-"


def size(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")
