"""Secrets of manifests: one private file each, outside the database, and nowhere else on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tfjob.controller.kind import Key
from tfjob.local.state.home import write_whole


class Secrets:
    """The Secret documents below one folder, which only this user can read."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, key: Key, document: dict[str, Any]) -> None:
        path = self._path(key)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, msgspec.json.encode(document))

    def get(self, key: Key) -> dict[str, Any] | None:
        """Return the document of that name; None if there is none, or if the name is not valid."""
        try:
            return msgspec.json.decode(self._path(key).read_bytes(), type=dict[str, Any])
        except (FileNotFoundError, ValueError):
            return None

    def _path(self, key: Key) -> Path:
        if "/" in key.name or "/" in key.namespace or key.name.startswith("."):
            raise ValueError(f"{key.name!r} is not a valid name of a Secret")
        return self._root / key.namespace / f"{key.name}.json"
