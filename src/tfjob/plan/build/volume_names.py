"""Names for volumes that we add to pods of users."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

NAME_LENGTH = 63


def similar_names(name: str) -> Iterator[str]:
    """A volume's name, then others like it, for when it is taken."""
    yield name
    for number in count(2):
        suffix = f"-{number}"
        yield name[: NAME_LENGTH - len(suffix)] + suffix
