"""The default parameter server: which replicas have it, and where it listens."""

from __future__ import annotations

from tfjob.api.conversion import canonical_type
from tfjob.api.origin import origin
from tfjob.api.types import CONTAINER_NAME, DEFAULT_PORT, PS, PS_PORT, ReplicaSpec, TFJob


def serves_by_default(job: TFJob, replica_type: str, replica: ReplicaSpec) -> bool:
    """Whether a replica is a parameter server whose program is ours.

    It has no template, or one without a container of its own. In v1alpha1, where the training container must be called
    so, every container of another name is beside the server; elsewhere a single container may have any name.
    """
    if canonical_type(replica_type) != PS:
        return False
    containers = ((replica.template or {}).get("spec") or {}).get("containers") or []
    if not origin(job).is_v1alpha1:
        return not containers
    only = CONTAINER_NAME if len(containers) == 1 else ""
    return all(container.get("name", only) != CONTAINER_NAME for container in containers)


def server_port(job: TFJob) -> int:
    """Where a server of ours listens, if its template has no container that says so."""
    given = job.metadata.annotations.get(PS_PORT, "")
    return int(given) if given.isdecimal() else DEFAULT_PORT
