"""Objects as YAML for people and for kubectl."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml


class _Plain(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes what two places of an object share twice, not as an anchor and an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def yaml_text(objects: Iterable[Any]) -> str:
    """The documents of a YAML file, keys in the order that they have."""
    return str(yaml.dump_all(objects, Dumper=_Plain, sort_keys=False, width=120))
