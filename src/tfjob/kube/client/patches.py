"""Merge patches, as an API server takes them: what differs between two objects, where null removes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def difference(old: Mapping[str, Any], new: Mapping[str, Any], *, whole: bool = False) -> dict[str, Any]:
    """Return the patch that turns `old` into `new`.

    Of an object that is missing in `new` only the fields in `old` are removed, because it may hold fields that we do
    not know; with `whole` all of it is removed.
    """
    patch: dict[str, Any] = {}
    for key in {**old, **new}:
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and (isinstance(after, dict) or (after is None and not whole)):
            if inner := difference(before, after or {}, whole=whole):
                patch[key] = inner
        elif before != after:
            patch[key] = after
    return patch


def merged(value: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(value)
    for key, item in patch.items():
        if item is None:
            made.pop(key, None)
        elif isinstance(item, dict):
            made[key] = merged(made.get(key) or {}, item)
        else:
            made[key] = item
    return made
