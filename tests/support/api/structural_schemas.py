"""The rules that the schema of a CRD must keep to be structural."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

KEEPS = "x-kubernetes-preserve-unknown-fields"
EITHER = "x-kubernetes-int-or-string"
FORBIDDEN = {
    "$ref",
    "definitions",
    "id",
    "dependencies",
    "patternProperties",
    "additionalItems",
    "uniqueItems",
    "nullable",
    "anyOf",
    "allOf",
    "oneOf",
    "not",
}
Node = dict[str, Any]


def nodes(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    yield path, node
    for name, inner in node.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if key in node:
            yield from nodes(node[key], path + mark)


def violations(node: Node) -> list[str]:
    """The rules of a structural schema that a node breaks."""
    found = [f"has {key}" for key in sorted(FORBIDDEN & set(node))]
    if "type" not in node and not node.get(EITHER) and not node.get(KEEPS):
        found.append("has no type")
    if "properties" in node and "additionalProperties" in node:
        found.append("has properties and additionalProperties")
    if "items" in node and not isinstance(node["items"], dict):
        found.append("has a list of items")
    if set(node.get("required", [])) - set(node.get("properties", {})):
        found.append("requires what it does not have")
    if node.get("type") == "array" and "items" not in node:
        found.append("is an array of nothing")
    if node.get("type") == "object" and not {"properties", "additionalProperties", KEEPS} & set(node):
        found.append("loses all its fields")
    return found
