"""The default parameter server: a container that runs our program in a TensorFlow image.

The pod mounts the program from a ConfigMap of the job, so that any image with TensorFlow works.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tfjob.api.defaults import PS_FOLDER, PS_VOLUME, server_container, serves_by_default
from tfjob.api.names import child_metadata, job_labels, server_program_name
from tfjob.api.objects import ConfigMap
from tfjob.api.types import CONTAINER_NAME, PORT_NAME, PS, TFJob
from tfjob.controller.kind import Observation
from tfjob.plan.build.job_storage import similar_names
from tfjob.plan.facts.tasks import Task, replicas_of
from tfjob.plan.facts.tf_config import cluster, port

DEFAULT_TF_IMAGE = "tensorflow/tensorflow:2.21.0"
FILE = "grpc_tensorflow_server.py"
COMMAND = ["python", f"{PS_FOLDER}/{FILE}"]

Object = dict[str, Any]


@cache
def program() -> str:
    """Return the source of the program; it runs in users' images and is never imported."""
    return (Path(__file__).with_name("programs") / FILE).read_text(encoding="utf-8")


def config_map(job: TFJob, own_program: str = "") -> ConfigMap:
    metadata = child_metadata(job, server_program_name(job), job_labels(job))
    return ConfigMap(metadata=metadata, data={FILE: own_program or program()})


def has_default_server(job: TFJob) -> bool:
    replica = job.spec.tf_replica_specs.get(PS)
    return replica is not None and serves_by_default(job, PS, replica) and replicas_of(job, PS) > 0


def lacks_program(job: TFJob, observed: Observation) -> bool:
    there = {one.metadata.name for one in observed.of(ConfigMap) if one.metadata.deletion_timestamp is None}
    return has_default_server(job) and server_program_name(job) not in there


def with_server(job: TFJob, template: Object, image: str) -> Object:
    """Add the server to a template; the fields of the template's own container for it take precedence."""
    spec: Object = template.get("spec") or {}
    given: list[Object] = spec.get("containers") or []
    taken = {volume.get("name") for volume in spec.get("volumes") or ()}
    volume = next(name for name in similar_names(PS_VOLUME) if name not in taken)
    source = {"name": volume, "configMap": {"name": server_program_name(job)}}
    server: Object = {
        "name": CONTAINER_NAME,
        "image": image,
        "command": COMMAND,
        "volumeMounts": [{"name": volume, "mountPath": PS_FOLDER}],
    }
    own = server_container(template)
    server |= {name: value for name, value in (own or {}).items() if value}
    ports = [one for one in server.get("ports") or () if one.get("name") != PORT_NAME]
    server["ports"] = [*ports, {"name": PORT_NAME, "containerPort": port(job, PS)}]
    containers = [server, *given] if own is None else [server if one is own else one for one in given]
    return {**template, "spec": {**spec, "containers": containers, "volumes": [*(spec.get("volumes") or ()), source]}}


def flags(job: TFJob, task: Task, cluster_domain: str = "") -> list[str]:
    """Return the arguments of a server: the whole cluster, and its task. A user's program may not read TF_CONFIG."""
    if job.spec.enable_dynamic_worker:
        return []  # there is no fixed cluster
    members = cluster(job, cluster_domain)
    spec = ",".join(f"{kind}|{';'.join(addresses)}" for kind, addresses in members.items())
    return ["--cluster_spec", spec, "--job_name", task.type.lower(), "--task_id", str(task.index)]
