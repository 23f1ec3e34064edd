"""Objects as the caches keep them: only what a decision reads, so that thousands of them fit in little memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from tfjob.api.objects import (
    LAST_APPLIED,
    ConfigMap,
    Deployment,
    DeploymentStatus,
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

UNREAD_ANNOTATIONS = (LAST_APPLIED,)
"""As long as the object itself, and never read here."""


class Node(Model, frozen=True):
    """A machine of the cluster, and whether it answers."""

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


class _WireMetadata(Model, frozen=True):
    metadata: ObjectMeta


class _WireDeployment(Model, frozen=True):
    metadata: ObjectMeta
    status: DeploymentStatus = DeploymentStatus()


class _WireWrapper(Model, frozen=True):
    metadata: ObjectMeta
    status: JobStatus = JobStatus()


class _WireNodeCondition(Model, frozen=True):
    type: str = ""
    status: str = ""


class _WireNodeStatus(Model, frozen=True):
    conditions: list[_WireNodeCondition] = []


class _WireNode(Model, frozen=True):
    metadata: ObjectMeta
    status: _WireNodeStatus = _WireNodeStatus()


_owners = msgspec.json.Decoder(_WireOwner)
_pods = msgspec.json.Decoder(_WirePod)
_bare = msgspec.json.Decoder(_WireMetadata)
_deployments = msgspec.json.Decoder(_WireDeployment)
_pod_groups = msgspec.json.Decoder(PodGroup)
_wrappers = msgspec.json.Decoder(_WireWrapper)
_nodes = msgspec.json.Decoder(_WireNode)


def decode_owner(kind: str, encoded: bytes | msgspec.Raw) -> Stored:
    """Read an owner of some kind for the cache."""
    wire = decoded(_owners, encoded)
    return Stored(kind, _trimmed(wire.metadata), bytes(wire.spec), bytes(wire.status))


def decode_pod(encoded: bytes | msgspec.Raw) -> Pod:
    """Read a pod for the cache: of its spec only the node and the restart policy."""
    wire = _pods.decode(encoded)
    spec: dict[str, Any] = {"restartPolicy": wire.spec.restart_policy}
    if wire.spec.node_name:
        spec["nodeName"] = wire.spec.node_name
    return Pod(metadata=_trimmed(wire.metadata), spec=spec, status=wire.status)


def decode_service(encoded: bytes | msgspec.Raw) -> Service:
    """Read a service for the cache: only its existence matters."""
    return Service(metadata=_trimmed(_bare.decode(encoded).metadata))


def decode_pod_group(encoded: bytes | msgspec.Raw) -> PodGroup:
    """Read a pod group for the cache, whole: it is small, and compared with what it should be."""
    group = _pod_groups.decode(encoded)
    return replace(group, metadata=_trimmed(group.metadata))


def decode_config_map(encoded: bytes | msgspec.Raw) -> ConfigMap:
    """Read a ConfigMap for the cache: only its existence matters."""
    return ConfigMap(metadata=_trimmed(_bare.decode(encoded).metadata))


def decode_deployment(encoded: bytes | msgspec.Raw) -> Deployment:
    """Read a Deployment for the cache: whether it is ready."""
    wire = _deployments.decode(encoded)
    return Deployment(metadata=_trimmed(wire.metadata), status=wire.status)


def decode_wrapper(encoded: bytes | msgspec.Raw) -> Job:
    """Read the Job around a pod for the cache: its conditions."""
    wire = _wrappers.decode(encoded)
    return Job(metadata=_trimmed(wire.metadata), status=wire.status)


@dataclass(frozen=True)
class ChildType:
    """Where an API server keeps children of a type, and how they are read for the cache."""

    resource: Resource
    decode: Callable[[bytes | msgspec.Raw], Any]


CHILD_TYPES: dict[type[Any], ChildType] = {
    Pod: ChildType(PODS, decode_pod),
    Service: ChildType(SERVICES, decode_service),
    PodGroup: ChildType(PODGROUPS, decode_pod_group),
    ConfigMap: ChildType(CONFIG_MAPS, decode_config_map),
    Deployment: ChildType(DEPLOYMENTS, decode_deployment),
    Job: ChildType(JOBS, decode_wrapper),
}


def decode_node(encoded: bytes | msgspec.Raw) -> Node:
    """Read a node for the cache: whether it answers."""
    wire = _nodes.decode(encoded)
    ready = all(condition.status == "True" for condition in wire.status.conditions if condition.type == "Ready")
    return Node(
        metadata=ObjectMeta(name=wire.metadata.name, resource_version=wire.metadata.resource_version), ready=ready
    )


def _trimmed(metadata: ObjectMeta) -> ObjectMeta:
    if not any(name in metadata.annotations for name in UNREAD_ANNOTATIONS):
        return metadata
    kept = {name: text for name, text in metadata.annotations.items() if name not in UNREAD_ANNOTATIONS}
    return replace(metadata, annotations=kept)
