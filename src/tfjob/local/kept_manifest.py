"""The manifest as the record of a run keeps it: word for word, but for the values of Secrets.

Those are in files of their own; a record may be shown to others.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator

import yaml

HIDDEN = '"(secret)"'
VALUES = ("data", "stringData")
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""What kubectl adds to an object that it made: the object, values and all."""


def without_secrets(manifest: bytes) -> bytes:
    """The same text with the values of Secrets hidden."""
    text = manifest.removeprefix(codecs.BOM_UTF8).decode()
    places = {
        (node.start_mark.index, node.end_mark.index)
        for document in yaml.compose_all(text, Loader=yaml.SafeLoader)
        for secret in _secrets(document)
        for node in _values(secret)
    }
    for start, end in sorted(places, reverse=True):
        ended = "\n" if text[start:end].endswith("\n") else ""  # a block of lines ends where the next key begins
        text = f"{text[:start]}{HIDDEN}{ended}{text[end:]}"
    return text.encode()


def _secrets(node: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    """The Secrets of a document: itself, or items of a list."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _secrets(item)
    elif isinstance(node, yaml.MappingNode):
        fields = _fields(node)
        kind = fields.get("kind")
        if isinstance(kind, yaml.ScalarNode) and kind.value == "Secret":
            yield node
        yield from _secrets(fields.get("items"))


def _values(secret: yaml.MappingNode) -> Iterator[yaml.Node]:
    fields = _fields(secret)
    for name in VALUES:
        held = fields.get(name)
        if isinstance(held, yaml.MappingNode):
            yield from _fields(held).values()
    annotations = _fields(_fields(fields.get("metadata")).get("annotations"))
    if APPLIED in annotations:
        yield annotations[APPLIED]


def _fields(node: yaml.Node | None) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {key.value: value for key, value in node.value if isinstance(key, yaml.ScalarNode)}
