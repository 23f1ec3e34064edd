"""A job with everything filled in that the user may leave out."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tfjob.api.conversion import canonical_type
from tfjob.api.dialect import origin
from tfjob.api.parameter_server import serves_by_default
from tfjob.api.types import CONTAINER_NAME, DEFAULT_PORT, PORT_NAME, ReplicaSpec, TFJob

NAMESPACE = "default"
CLEAN_POD_POLICY = "Running"
RESTART_POLICY, SERVER_RESTART_POLICY = "Never", "Always"


def with_defaults(job: TFJob) -> TFJob:
    """The job with its defaults; the given one stays as it is."""
    replicas: dict[str, ReplicaSpec] = {}
    for name, spec in job.spec.tf_replica_specs.items():
        is_ours = serves_by_default(job, name, spec)
        needs_port = origin(job).tf_config and not is_ours
        policy = SERVER_RESTART_POLICY if is_ours else RESTART_POLICY
        replicas.setdefault(canonical_type(name), _replica(spec, needs_port, policy))
    run_policy = replace(job.spec.run_policy, clean_pod_policy=job.spec.run_policy.clean_pod_policy or CLEAN_POD_POLICY)
    return replace(
        job,
        metadata=replace(job.metadata, namespace=job.metadata.namespace or NAMESPACE),
        spec=replace(job.spec, tf_replica_specs=replicas, run_policy=run_policy),
    )


def _replica(spec: ReplicaSpec, needs_port: bool, policy: str) -> ReplicaSpec:
    own_policy = (spec.template or {}).get("spec", {}).get("restartPolicy")
    return ReplicaSpec(
        replicas=1 if spec.replicas is None else spec.replicas,
        restart_policy=spec.restart_policy or own_policy or policy,
        template=_template(spec.template, needs_port) if spec.template else spec.template,
    )


def _template(template: dict[str, Any], needs_port: bool) -> dict[str, Any]:
    pod = template.get("spec", {})
    containers = [dict(container) for container in pod.get("containers", [])]
    if len(containers) == 1:
        containers[0].setdefault("name", CONTAINER_NAME)
    if needs_port and containers:
        training = training_container(containers)
        ports = training.get("ports", [])
        if not any(port.get("name") == PORT_NAME for port in ports):
            training["ports"] = [*ports, {"name": PORT_NAME, "containerPort": DEFAULT_PORT}]
    return {**template, "spec": {**pod, "containers": containers}}


def training_container(containers: list[dict[str, Any]]) -> dict[str, Any]:
    """The container that trains: the one called `tensorflow`, else the first."""
    return next((one for one in containers if one.get("name") == CONTAINER_NAME), containers[0])
