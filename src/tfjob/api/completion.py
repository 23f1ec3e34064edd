"""A TfJob's spec with what the first operator wrote back into it; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfjob.api.conversion import canonical_type
from tfjob.api.types import CONTAINER_NAME, DEFAULT_PORT, MASTER, PS

PS_VOLUME, PS_FOLDER = "ps-config-volume", "/ps-server"
"""Where a default parameter server finds its program."""
PS_MOUNT = {"mountPath": PS_FOLDER, "name": PS_VOLUME}


def completed(spec: Mapping[str, Any], runtime_id: str, tf_image: str) -> dict[str, Any]:
    """The spec with its random id and every default, in the spelling of the documents.

    `spec` has the canonical names of its fields. A parameter server without a template gets the one that stands for
    the default server.
    """
    image = spec.get("tfImage") or tf_image
    filled = {
        **spec,
        "RuntimeId": runtime_id,
        "replicaSpecs": [_replica(replica, image) for replica in spec.get("replicaSpecs") or ()],
        "tfImage": image,
    }
    if board := spec.get("tensorboard"):
        filled["tensorboard"] = {**board, "serviceType": board.get("serviceType") or "ClusterIP"}
    return filled


def default_server(image: str) -> dict[str, Any]:
    """The template that stands for a default parameter server in a stored spec."""
    container = {"name": CONTAINER_NAME, "image": image, "volumeMounts": [PS_MOUNT]}
    return {"spec": {"containers": [container], "restartPolicy": "OnFailure"}}


def is_default_server(replica: Mapping[str, Any]) -> bool:
    """Whether a stored replica has such a template, and not one of the user's."""
    containers = ((replica.get("template") or {}).get("spec") or {}).get("containers") or ()
    mounts = [mount for container in containers for mount in container.get("volumeMounts") or ()]
    return bool(replica.get("IsDefaultPS")) and PS_MOUNT in mounts


def _replica(replica: Mapping[str, Any], image: str) -> dict[str, Any]:
    kind = canonical_type(replica.get("tfReplicaType") or MASTER)
    template = replica.get("template")
    if kind == PS and template is None:
        template = default_server(image)
    return {
        **replica,
        "IsDefaultPS": kind == PS and not _serves_itself(replica),
        "replicas": 1 if replica.get("replicas") is None else replica["replicas"],
        "template": template,
        "tfPort": replica.get("tfPort") or DEFAULT_PORT,
        "tfReplicaType": kind.upper(),
    }


def _serves_itself(replica: Mapping[str, Any]) -> bool:
    """Whether a parameter server's template has a container of the user's that serves."""
    if replica.get("template") is None or is_default_server(replica):
        return False
    containers = (replica["template"].get("spec") or {}).get("containers") or ()
    return any(container.get("name") == CONTAINER_NAME for container in containers)
