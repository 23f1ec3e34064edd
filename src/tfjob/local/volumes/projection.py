"""The files of configMap, secret, downwardAPI and projected volumes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from tfjob.api.objects import Pod
from tfjob.api.pod_validation import CONFIG_MAP, SECRET
from tfjob.local.inputs.references import MissingReference, Node, References, container_of, field_value, resource_value
from tfjob.local.state.errors import Refusal

DEFAULT_MODE = 0o644
_KEY = re.compile(r"[-._a-zA-Z0-9]+")


@dataclass(frozen=True)
class File:
    """The contents and permission bits of one file."""

    data: bytes
    mode: int


@dataclass
class Projection:
    """Files by their path inside the volume; `secret` if any of them comes from a Secret."""

    files: dict[str, File] = field(default_factory=dict)
    secret: bool = False


def project(kind: str, source: Mapping[str, Any], pod: Pod, references: References, node: Node) -> Projection:
    """Return the files of a volume of `kind` configMap, secret, downwardAPI or projected."""
    mode = DEFAULT_MODE if source.get("defaultMode") is None else source["defaultMode"]
    projection = Projection()
    parts = source.get("sources") or [] if kind == "projected" else [{kind: source}]
    for part_kind, details in (item for part in parts for item in part.items()):
        match part_kind:
            case "configMap":
                files = _keys(CONFIG_MAP, details or {}, mode, references)
            case "secret":
                files = _keys(SECRET, details or {}, mode, references)
                projection.secret = True
            case "downwardAPI":
                files = _fields(details or {}, mode, pod, node)
            case _:
                raise Refusal(f"a projected volume cannot contain {part_kind} on this machine, which has no API server")
        projection.files.update(files)
    return projection


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
            text = resource_value(reference, container_of(reference, pod), node)
        files[_inside(item.get("path") or "")] = File(text.encode(), _mode(item, mode))
    return files


def _mode(item: Mapping[str, Any], default: int) -> int:
    mode = item.get("mode")
    return default if mode is None else int(mode)


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or parts[0].startswith(".."):
        raise Refusal(f"'{path}' is not a valid path inside a volume", "Use a relative path without '..'.")
    return str(PurePosixPath(path))
