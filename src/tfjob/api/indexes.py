"""Sets of replica indexes as short text (`0-2,5`), so that a status with 1,000 replicas stays small."""

from __future__ import annotations

from collections.abc import Iterable


def parse(text: str) -> set[int]:
    """The indexes that `text` names; empty text names none."""
    indexes: set[int] = set()
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        indexes.update(range(int(first), int(last or first) + 1))
    return indexes


def render(indexes: Iterable[int]) -> str:
    """The shortest text that names `indexes`."""
    ranges: list[list[int]] = []
    for index in sorted(set(indexes)):
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
