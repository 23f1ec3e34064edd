"""What a pod refers to: ConfigMaps, Secrets, and its own fields (`fieldRef`, `resourceFieldRef`)."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tfjob.api import quantity
from tfjob.api.objects import Pod
from tfjob.api.pod_validation import CONFIG_MAP, SECRET
from tfjob.controller.kind import Key
from tfjob.local.state.errors import Refusal
from tfjob.local.state.home import write_whole

_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class MissingReference(Refusal):
    """A reference to an object, or to a key of one, that does not exist and is not optional."""

    def __init__(self, kind: str, name: str, key: str = "") -> None:
        super().__init__(
            f"key '{key}' not found in {kind} '{name}'" if key else f"{kind} '{name}' not found",
            f"Add a document with kind: {kind} to the manifest, or set optional: true.",
        )
        self.kind = kind
        self.name = name
        self.key = key


class Secrets:
    """The Secrets of manifests: one private file each below a folder, and nowhere else on disk."""

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


@dataclass(frozen=True)
class References:
    """Lookups of ConfigMaps and Secrets by name, in the pod's namespace; None if there is no such object."""

    config_map: Callable[[str], Mapping[str, Any] | None]
    secret: Callable[[str], Mapping[str, Any] | None]

    def find(self, kind: str, reference: Mapping[str, Any], *, binary: bool) -> dict[str, bytes] | None:
        """Return the contents of an object (`binaryData` only if `binary`); None if it is missing and optional."""
        wanted = reference.get("name") or reference.get("secretName") or ""
        document = self.config_map(wanted) if kind == CONFIG_MAP else self.secret(wanted)
        if document is None:
            if reference.get("optional"):
                return None
            raise MissingReference(kind, wanted)
        if kind == CONFIG_MAP and not binary:
            document = {**document, "binaryData": None}
        return contents(kind, document)


def brought(documents: Iterable[Mapping[str, Any]], namespace: str, kept: References) -> References:
    """Look up objects in the documents of a manifest, then among those that earlier manifests left (`kept`)."""
    own = {
        (document["kind"], document["metadata"]["name"]): document
        for document in documents
        if (document["metadata"].get("namespace") or namespace) == namespace
    }
    return References(
        config_map=lambda name: own.get((CONFIG_MAP, name)) or kept.config_map(name),
        secret=lambda name: own.get((SECRET, name)) or kept.secret(name),
    )


def contents(kind: str, document: Mapping[str, Any]) -> dict[str, bytes]:
    plain, encoded = ("data", "binaryData") if kind == CONFIG_MAP else ("stringData", "data")
    held = {key: _decoded(kind, document, key, value) for key, value in (document.get(encoded) or {}).items()}
    return held | {key: str(value).encode() for key, value in (document.get(plain) or {}).items()}


def _decoded(kind: str, document: Mapping[str, Any], key: str, value: object) -> bytes:
    try:
        return base64.b64decode("".join(str(value or "").split()), validate=True)
    except binascii.Error:
        name = (document.get("metadata") or {}).get("name", "")
        raise Refusal(
            f"{kind} '{name}': the value of '{key}' is not valid base64",
            "Put plain text under stringData." if kind == SECRET else "Put plain text under data.",
        ) from None


@dataclass(frozen=True)
class Node:
    """This machine as the node of a pod; `cpus` and `memory` are the limits of containers that set none."""

    name: str
    ip: str = "127.0.0.1"
    cpus: int = 1
    memory: int = 0
    disk: int = 0


def field_value(path: str, pod: Pod, node: Node) -> str:
    """Return the string of a `fieldRef.fieldPath`; the pod's address must already be in its status."""
    meta = pod.metadata
    if match := _SUBSCRIPT.fullmatch(path):
        return (meta.labels if match[1] == "labels" else meta.annotations).get(match[2], "")
    simple = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "metadata.labels": _field_lines(meta.labels),
        "metadata.annotations": _field_lines(meta.annotations),
        "spec.nodeName": node.name,
        "spec.serviceAccountName": pod.spec.get("serviceAccountName") or "default",
        "status.podIP": pod.status.pod_ip,
        "status.podIPs": pod.status.pod_ip,
        "status.hostIP": node.ip,
        "status.hostIPs": node.ip,
    }
    if path not in simple:
        raise Refusal(f"fieldRef '{path}' is not supported", f"Supported: {', '.join(simple)}, metadata.labels['KEY'].")
    return simple[path]


def resource_value(reference: Mapping[str, Any], container: Mapping[str, Any], node: Node) -> str:
    """Return the string of a `resourceFieldRef`: a whole number, rounded up, in units of the divisor."""
    resource = reference.get("resource") or ""
    group, _, name = resource.partition(".")
    if group not in ("limits", "requests") or name not in ("cpu", "memory", "ephemeral-storage"):
        raise Refusal(
            f"resourceFieldRef '{resource}' is not supported",
            "Supported: limits or requests of cpu, memory or ephemeral-storage, such as limits.cpu.",
        )
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if group == "limits":
        value = limits.get(name, {"cpu": node.cpus, "memory": node.memory}.get(name, node.disk))
    else:
        value = requests.get(name, limits.get(name, 0))  # the API server defaults a request to its limit
    try:
        divisor = quantity.parse(reference.get("divisor") or 1) or 1
        return str(math.ceil(quantity.parse(value) / divisor))
    except ValueError as error:
        raise Refusal(f"resourceFieldRef '{resource}': {error}") from None


def _field_lines(values: Mapping[str, str]) -> str:
    return "\n".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in sorted(values.items()))


def container_of(reference: Mapping[str, Any], pod: Pod, default: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """Return the container that a `resourceFieldRef` names, or `default` if it names none."""
    wanted = reference.get("containerName") or ""
    if default is not None and not wanted:
        return default
    for container in (*(pod.spec.get("containers") or ()), *(pod.spec.get("initContainers") or ())):
        if container.get("name") == wanted:
            return dict(container)
    raise Refusal(f"resourceFieldRef names container '{wanted}', but the pod has no such container")
