"""The defaults of a job, and the parameter servers that run our program by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from tfjob.api.conversion import canonical_type
from tfjob.api.dialect import origin
from tfjob.api.types import CONTAINER_NAME, DEFAULT_PORT, PORT_NAME, PS, PS_PORT, ReplicaSpec, TFJob

NAMESPACE = "default"
CLEAN_POD_POLICY = "Running"
PS_VOLUME, PS_FOLDER = "ps-config-volume", "/ps-server"
"""The volume with the program of a default parameter server, and its mount path."""


def with_defaults(job: TFJob) -> TFJob:
    replicas: dict[str, ReplicaSpec] = {}
    for name, spec in job.spec.tf_replica_specs.items():
        is_ours = serves_by_default(job, name, spec)
        needs_port = origin(job).tf_config and not is_ours
        own_policy = (spec.template or {}).get("spec", {}).get("restartPolicy")
        replica = ReplicaSpec(
            replicas=spec.count,
            restart_policy=spec.restart_policy or own_policy or ("Always" if is_ours else "Never"),
            template=spec.template and _template(spec.template, needs_port),
        )
        replicas.setdefault(canonical_type(name), replica)
    run_policy = replace(job.spec.run_policy, clean_pod_policy=job.spec.run_policy.clean_pod_policy or CLEAN_POD_POLICY)
    return replace(
        job,
        metadata=replace(job.metadata, namespace=job.metadata.namespace or NAMESPACE),
        spec=replace(job.spec, tf_replica_specs=replicas, run_policy=run_policy),
    )


def _template(template: dict[str, Any], needs_port: bool) -> dict[str, Any]:
    pod = template.get("spec", {})
    containers = [dict(container) for container in pod.get("containers", [])]
    if len(containers) == 1:
        containers[0].setdefault("name", CONTAINER_NAME)
    template = {**template, "spec": {**pod, "containers": containers}}
    if needs_port and containers:
        training = training_container(template)
        ports = training.get("ports", [])
        if not any(port.get("name") == PORT_NAME for port in ports):
            training["ports"] = [*ports, {"name": PORT_NAME, "containerPort": DEFAULT_PORT}]
    return template


def training_container(template: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the container of a pod template that trains: the one named `tensorflow`, else the first, else {}."""
    containers = _containers(template)
    return next((one for one in containers if one.get("name") == CONTAINER_NAME), containers[0] if containers else {})


def serves_by_default(job: TFJob, replica_type: str, replica: ReplicaSpec) -> bool:
    """Return whether a replica is a parameter server that runs our program.

    Its template is missing or has no server. In v1alpha1, a server is a container named `tensorflow`, and containers
    with other names are sidecars; in other versions, any container is a server.
    """
    if canonical_type(replica_type) != PS:
        return False
    return not (brings_server(replica.template) if origin(job).is_v1alpha1 else _containers(replica.template))


def brings_server(template: Mapping[str, Any] | None) -> bool:
    server = server_container(template)
    if template is None or server is None:
        return False
    volumes = {volume.get("name") for volume in template["spec"].get("volumes") or ()}
    mounts = {(mount.get("name"), mount.get("mountPath")) for mount in server.get("volumeMounts") or ()}
    # A mount without its volume marks our program: the operator writes such templates and adds the volume later.
    return PS_VOLUME in volumes or (PS_VOLUME, PS_FOLDER) not in mounts


def server_container(template: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the container named `tensorflow`, or the only container if it has no name; None if there is neither."""
    containers = _containers(template)
    only = CONTAINER_NAME if len(containers) == 1 else ""
    return next((one for one in containers if one.get("name", only) == CONTAINER_NAME), None)


def server_port(job: TFJob) -> int:
    """Return the port of a default parameter server without a container."""
    given = job.metadata.annotations.get(PS_PORT, "")
    return int(given) if given.isdecimal() else DEFAULT_PORT


def _containers(template: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    return ((template or {}).get("spec") or {}).get("containers") or []
