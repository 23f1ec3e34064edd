"""The files of configMap, secret, downwardAPI and projected volumes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from tfjob.api.pod_validation import CONFIG_MAP, SECRET
from tfjob.local.inputs.references import (
    MissingReference,
    Node,
    References,
    container_named,
    field_value,
    resource_value,
)
from tfjob.local.state.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfjob.api.objects import Pod

DEFAULT_MODE = 0o644
_KEY = re.compile(r"[-._a-zA-Z0-9]+")


@dataclass(frozen=True)
class File:
    """One file: its contents and permission bits."""

    data: bytes
    mode: int


@dataclass
class Projection:
    """Files by their path inside the volume; `secret` when any of them comes from a Secret."""

    files: dict[str, File] = field(default_factory=dict)
    secret: bool = False


def project(kind: str, source: Mapping[str, Any], pod: Pod, references: References, node: Node) -> Projection:
    """The files of a volume source of `kind`: configMap, secret, downwardAPI or projected."""
    mode = source.get("defaultMode")
    projection = Projection()
    parts = source.get("sources") or [] if kind == "projected" else [{kind: source}]
    for part in parts:
        for part_kind, details in part.items():
            _add(projection, part_kind, details or {}, DEFAULT_MODE if mode is None else mode, pod, references, node)
    return projection


def _add(
    projection: Projection,
    kind: str,
    source: Mapping[str, Any],
    mode: int,
    pod: Pod,
    references: References,
    node: Node,
) -> None:
    if kind == "configMap":
        projection.files.update(_keys(CONFIG_MAP, source, mode, references))
    elif kind == "secret":
        projection.secret = True
        projection.files.update(_keys(SECRET, source, mode, references))
    elif kind == "downwardAPI":
        projection.files.update(_fields(source, mode, pod, node))
    else:
        raise Refusal(f"a projected volume cannot contain {kind} on this machine, which has no API server")


def _keys(kind: str, source: Mapping[str, Any], mode: int, references: References) -> dict[str, File]:
    held = references.find(kind, source, binary=True)
    if held is None:
        return {}
    if not source.get("items"):
        return {_inside(key): File(data, mode) for key, data in held.items() if _KEY.fullmatch(key)}
    files = {}
    for item in source["items"]:
        key = item.get("key") or ""
        if key in held:
            files[_inside(item.get("path") or key)] = File(held[key], _mode(item, mode))
        elif not source.get("optional"):
            raise MissingReference(kind, source.get("name") or source.get("secretName") or "", key)
    return files


def _fields(source: Mapping[str, Any], mode: int, pod: Pod, node: Node) -> dict[str, File]:
    files = {}
    for item in source.get("items") or []:
        if item.get("fieldRef"):
            text = field_value(item["fieldRef"].get("fieldPath") or "", pod, node)
        else:
            reference = item.get("resourceFieldRef") or {}
            text = resource_value(reference, container_named(reference, pod), node)
        files[_inside(item.get("path") or "")] = File(text.encode(), _mode(item, mode))
    return files


def _mode(item: Mapping[str, Any], default: int) -> int:
    mode = item.get("mode")
    return default if mode is None else int(mode)


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or parts[0].startswith(".."):
        raise Refusal(f'"{path}" is not a valid path inside a volume', "Use a relative path without '..'.")
    return str(PurePosixPath(path))
