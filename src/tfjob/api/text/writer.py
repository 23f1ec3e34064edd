"""Write YAML: keys in their order, and no anchors or aliases.

`yaml_text` is for people and writes strings of several lines as blocks. `plain_yaml` is for large objects and is
written by libyaml, where there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import yaml


class _PlainDumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes what two places of an object share twice, not as an anchor and an alias."""

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
