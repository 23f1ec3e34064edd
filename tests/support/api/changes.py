"""Objects that differ from another one at a few places."""

from __future__ import annotations

import copy
from typing import Any


def changed(body: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a copy with values set at paths such as `spec__runPolicy__suspend`; None removes one."""
    copied = copy.deepcopy(body)
    for path, value in changes.items():
        *parents, name = path.split("__")
        place = copied
        for parent in parents:
            place = place.setdefault(parent, {})
        if value is None:
            place.pop(name, None)
        else:
            place[name] = value
    return copied
