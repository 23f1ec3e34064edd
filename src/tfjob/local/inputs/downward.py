"""What a pod may learn about itself: the `fieldRef` and `resourceFieldRef` of env and of downwardAPI volumes."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfjob.api import quantity
from tfjob.local.state.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfjob.api.objects import Pod

_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


@dataclass(frozen=True)
class Node:
    """This machine as the node that a pod runs on; `cpus` and `memory` stand in for limits that are not set."""

    name: str
    ip: str = "127.0.0.1"
    cpus: int = 1
    memory: int = 0
    disk: int = 0


def field_value(path: str, pod: Pod, node: Node) -> str:
    """The text of a `fieldRef.fieldPath`; the pod's address must already be in its status."""
    meta = pod.metadata
    if match := _SUBSCRIPT.fullmatch(path):
        return (meta.labels if match[1] == "labels" else meta.annotations).get(match[2], "")
    simple = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "metadata.labels": _lines(meta.labels),
        "metadata.annotations": _lines(meta.annotations),
        "spec.nodeName": node.name,
        "spec.serviceAccountName": pod.spec.get("serviceAccountName") or "default",
        "status.podIP": pod.status.pod_ip,
        "status.podIPs": pod.status.pod_ip,
        "status.hostIP": node.ip,
        "status.hostIPs": node.ip,
    }
    if path not in simple:
        raise Refusal(f'fieldRef "{path}" is not supported', f"Known: {', '.join(simple)}, metadata.labels['KEY'].")
    return simple[path]


def resource_value(reference: Mapping[str, Any], container: Mapping[str, Any], node: Node) -> str:
    """The text of a `resourceFieldRef` about `container`: a whole number, rounded up, in units of the divisor."""
    resource = reference.get("resource") or ""
    group, _, name = resource.partition(".")
    if group not in ("limits", "requests") or name not in ("cpu", "memory", "ephemeral-storage"):
        raise Refusal(
            f'resourceFieldRef "{resource}" is not supported', "Known: limits. or requests. and cpu or memory."
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
        raise Refusal(f'resourceFieldRef "{resource}": {error}') from None


def _lines(values: Mapping[str, str]) -> str:
    return "\n".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in sorted(values.items()))


def container_named(
    reference: Mapping[str, Any], pod: Pod, default: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    """The container that a `resourceFieldRef` is about: the one that it names, else `default`."""
    wanted = reference.get("containerName") or (default or {}).get("name", "")
    for container in (*(pod.spec.get("containers") or ()), *(pod.spec.get("initContainers") or ())):
        if container.get("name") == wanted:
            return dict(container)
    if default is not None and not reference.get("containerName"):
        return default
    raise Refusal(f'resourceFieldRef names container "{wanted}", which the pod does not have')
