"""Objects as the caches keep them: only the fields that a decision reads, so that thousands fit in little memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_type_hints

import msgspec
from msgspec.structs import replace

from tfjob.api.objects import (
    LAST_APPLIED,
    ConfigMap,
    Deployment,
    Job,
    JobStatus,
    Model,
    ObjectMeta,
    Pod,
    PodGroup,
    PodStatus,
    Service,
)
from tfjob.api.resources import CONFIG_MAPS, DEPLOYMENTS, JOBS, PODGROUPS, PODS, SERVICES, Resource
from tfjob.api.text.shallow import decoded
from tfjob.controller.kind import Stored


class Node(Model, frozen=True):
    """A machine of the cluster, and whether it is ready."""

    metadata: ObjectMeta
    ready: bool = True


class _WireOwner(Model, frozen=True):
    metadata: ObjectMeta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _WirePodSpec(Model, frozen=True):
    node_name: str = ""
    restart_policy: str = "Always"


class _WirePod(Model, frozen=True):
    metadata: ObjectMeta
    spec: _WirePodSpec = _WirePodSpec()
    status: PodStatus = PodStatus()


class _WireNode(Model, frozen=True):
    metadata: ObjectMeta
    status: JobStatus = JobStatus()  # like the status of a Job, it has conditions


_owners = msgspec.json.Decoder(_WireOwner)
_pods = msgspec.json.Decoder(_WirePod)
_nodes = msgspec.json.Decoder(_WireNode)


def decode_owner(kind: str, encoded: bytes | msgspec.Raw) -> Stored:
    wire = decoded(_owners, encoded)
    return Stored(kind, _trimmed(wire.metadata), bytes(wire.spec), bytes(wire.status))


def decode_pod(encoded: bytes | msgspec.Raw) -> Pod:
    """Decode a pod for the cache; of its spec, keep only the node and the restart policy."""
    wire = _pods.decode(encoded)
    spec: dict[str, Any] = {"restartPolicy": wire.spec.restart_policy}
    if wire.spec.node_name:
        spec["nodeName"] = wire.spec.node_name
    return Pod(metadata=_trimmed(wire.metadata), spec=spec, status=wire.status)


def _decode(kind: type[Any], *kept: str) -> Callable[[bytes | msgspec.Raw], Any]:
    """Return a decoder of a kind for the cache; it keeps the metadata and the fields in `kept`."""
    hints, usual = get_type_hints(kind), kind()
    fields = [(name, hints[name], getattr(usual, name)) for name in ("metadata", *kept)]
    decoder = msgspec.json.Decoder(msgspec.defstruct(f"_Wire{kind.__name__}", fields, bases=(Model,), frozen=True))

    def decode(encoded: bytes | msgspec.Raw) -> Any:
        wire: Any = decoder.decode(encoded)
        return kind(metadata=_trimmed(wire.metadata), **{name: getattr(wire, name) for name in kept})

    return decode


@dataclass(frozen=True)
class ChildType:
    """The resource of a type of children, and its decoder for the cache."""

    resource: Resource
    decode: Callable[[bytes | msgspec.Raw], Any]


CHILD_TYPES: dict[type[Any], ChildType] = {
    Pod: ChildType(PODS, decode_pod),
    Service: ChildType(SERVICES, _decode(Service)),
    PodGroup: ChildType(PODGROUPS, _decode(PodGroup, "api_version", "spec", "status")),
    ConfigMap: ChildType(CONFIG_MAPS, _decode(ConfigMap)),
    Deployment: ChildType(DEPLOYMENTS, _decode(Deployment, "status")),
    Job: ChildType(JOBS, _decode(Job, "status")),
}


def decode_node(encoded: bytes | msgspec.Raw) -> Node:
    wire = _nodes.decode(encoded)
    ready = all(condition.status == "True" for condition in wire.status.conditions if condition.type == "Ready")
    return Node(
        metadata=ObjectMeta(name=wire.metadata.name, resource_version=wire.metadata.resource_version), ready=ready
    )


def _trimmed(metadata: ObjectMeta) -> ObjectMeta:
    """Return the metadata without the annotation that is as long as the object itself."""
    if LAST_APPLIED not in metadata.annotations:
        return metadata
    kept = {name: text for name, text in metadata.annotations.items() if name != LAST_APPLIED}
    return replace(metadata, annotations=kept)
