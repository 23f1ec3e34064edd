"""Merge patches: the differences between two objects, in which null removes a field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def difference(old: Mapping[str, Any], new: Mapping[str, Any], *, whole: bool = False) -> dict[str, Any]:
    """Return the patch that turns `old` into `new`.

    If `new` lacks an object, the patch removes only the fields that `old` shows, because the object may hold fields
    that we do not know; with `whole` the patch removes the object.
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
