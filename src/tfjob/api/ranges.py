"""Sets of replica indexes as short strings (`0-2,5`), so that the status of 1,000 replicas stays small."""

from __future__ import annotations

import re
from collections.abc import Iterable

_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


def parse(text: str) -> set[int]:
    """Return the indexes in `text`; parts of another form, which a foreign status may have, are ignored."""
    indexes: set[int] = set()
    for part in text.split(","):
        if found := _RANGE.fullmatch(part):
            first, last = found.groups()
            indexes.update(range(int(first), int(last or first) + 1))
    return indexes


def render(indexes: Iterable[int]) -> str:
    ranges: list[list[int]] = []
    for index in sorted(set(indexes)):
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
