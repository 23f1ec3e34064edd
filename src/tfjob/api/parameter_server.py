"""The default parameter server: which replicas have it, and where it listens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfjob.api.conversion import canonical_type
from tfjob.api.dialect import origin
from tfjob.api.types import CONTAINER_NAME, DEFAULT_PORT, PS, PS_PORT, ReplicaSpec, TFJob

PS_VOLUME, PS_FOLDER = "ps-config-volume", "/ps-server"
"""Where a default parameter server finds its program."""


def serves_by_default(job: TFJob, replica_type: str, replica: ReplicaSpec) -> bool:
    """Whether a replica is a parameter server whose program is ours.

    It has no template, or one without a server of its own. In v1alpha1, where the training container must be called
    so, every container of another name is beside the server; elsewhere a single container may have any name.
    """
    if canonical_type(replica_type) != PS:
        return False
    if not origin(job).is_v1alpha1:
        return not _containers(replica.template)
    return not brings_server(replica.template)


def brings_server(template: Mapping[str, Any] | None) -> bool:
    """Whether a template of v1alpha1 has a server of the user's own."""
    server = server_container(template)
    if template is None or server is None:
        return False
    volumes = {volume.get("name") for volume in template["spec"].get("volumes") or ()}
    mounts = {(mount.get("name"), mount.get("mountPath")) for mount in server.get("volumeMounts") or ()}
    # A mount without its volume stands for the program that the operator brings, as in every template that it writes.
    return PS_VOLUME in volumes or (PS_VOLUME, PS_FOLDER) not in mounts


def server_container(template: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The container of a template of v1alpha1 that serves: the one called so, or the only one if it has no name."""
    containers = _containers(template)
    only = CONTAINER_NAME if len(containers) == 1 else ""
    return next((one for one in containers if one.get("name", only) == CONTAINER_NAME), None)


def server_port(job: TFJob) -> int:
    """Where a server of ours listens, if its template has no container that says so."""
    given = job.metadata.annotations.get(PS_PORT, "")
    return int(given) if given.isdecimal() else DEFAULT_PORT


def _containers(template: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    return ((template or {}).get("spec") or {}).get("containers") or []
