"""Write YAML with keys in their order and without anchors.

`yaml_text` is for people: it writes strings with several lines as blocks. `plain_yaml` is faster, for large objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import yaml


class _PlainDumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """A dumper without anchors and aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class _Dumper(yaml.SafeDumper):
    ignore_aliases = _PlainDumper.ignore_aliases


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def yaml_text(documents: Sequence[Any]) -> str:
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def plain_yaml(objects: Iterable[Any]) -> str:
    return str(yaml.dump_all(objects, Dumper=_PlainDumper, sort_keys=False, allow_unicode=True, width=120))
