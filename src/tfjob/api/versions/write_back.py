"""A TfJob's spec with what the first operator wrote back into it; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfjob.api.conversion import canonical_type
from tfjob.api.defaults import PS_FOLDER, PS_VOLUME, brings_server
from tfjob.api.types import CONTAINER_NAME, DEFAULT_PORT, MASTER, PS

LEVELS = 20
"""A template that stands for the default server has fewer, also if fields that are empty were written."""


def completed(spec: Mapping[str, Any], runtime_id: str, tf_image: str) -> dict[str, Any]:
    """Return the spec with its random id and every default, in the documented spelling.

    `spec` has the canonical names of its fields. A parameter server without a template gets the template that marks
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
    """Return the template that marks a default parameter server in a stored spec."""
    mount = {"mountPath": PS_FOLDER, "name": PS_VOLUME}
    container = {"name": CONTAINER_NAME, "image": image, "volumeMounts": [mount]}
    return {"spec": {"containers": [container], "restartPolicy": "OnFailure"}}


def is_default_server(template: Any, tf_image: Any) -> bool:
    """Return whether a template is that one, in a job with that `tfImage`, and so holds nothing of the user's."""
    return bool(_said(template) == default_server(tf_image))


def _said(value: Any, levels: int = LEVELS) -> Any:
    """Return a value without nulls and empty values, which the first operator wrote too.

    What lies deeper than any field of a pod is not one, and might exceed the stack, so it stays.
    """
    if isinstance(value, dict) and levels:
        said = {key: _said(item, levels - 1) for key, item in value.items()}
        return {key: item for key, item in said.items() if item not in (None, {}, [], "")}
    return [_said(item, levels - 1) for item in value] if isinstance(value, list) and levels else value


def _replica(replica: Mapping[str, Any], image: str) -> dict[str, Any]:
    kind = canonical_type(replica.get("tfReplicaType") or MASTER)
    template = replica.get("template")
    if kind == PS and template is None:
        template = default_server(image)
    return {
        **replica,
        "IsDefaultPS": kind == PS and not brings_server(template),
        "replicas": 1 if replica.get("replicas") is None else replica["replicas"],
        "template": template,
        "tfPort": replica.get("tfPort") or DEFAULT_PORT,
        "tfReplicaType": kind.upper(),
    }
