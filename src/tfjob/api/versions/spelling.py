"""Names of fields that may be spelt in several ways: brought to one spelling, and back to the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

Spelling = tuple[list[str], str, str]
"""The path of a mapping, a name in it as we spell it, and as the user did."""


def respelt(
    given: Mapping[str, Any],
    own_name: Callable[[str], str],
    path: list[str],
    found: list[Spelling],
    *,
    users_first: bool = False,
) -> dict[str, Any]:
    """Rename keys to our names and note each change in `found`; a key stays if our name is taken or there is none.

    With `users_first` the user's spelling takes our name from a value that has it; that value gets the user's name.
    """
    ours: dict[str, str] = {}
    for key in sorted(given):
        name = own_name(key) or key
        is_free = name not in given or (users_first and given[key] is not None)
        if name != key and is_free and name not in ours.values():
            ours[key] = name
            found.append((path, name, key))
    theirs = {name: key for key, name in ours.items()}
    return {ours.get(key) or theirs.get(key, key): value for key, value in given.items()}


def spelt_back(value: dict[str, Any], spellings: Iterable[Spelling]) -> dict[str, Any]:
    """Return the value with the user's names; the given one is not changed."""
    for path, name, written in spellings:
        value = dict(_renamed(value, path, name, written))
    return value


def _renamed(value: Any, path: list[str], name: str, written: str) -> Any:
    if not isinstance(value, dict):
        return value
    if path:
        step, *rest = path
        return {**value, step: _renamed(value[step], rest, name, written)} if step in value else value
    if name not in value:
        return value
    swapped = {name: written, written: name}
    return {swapped.get(key, key): item for key, item in value.items()}
