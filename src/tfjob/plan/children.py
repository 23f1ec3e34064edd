"""The pod and the service of one task, as training-operator v1.9 makes them."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from tfjob.api.names import JOB_ROLE_LABEL, child_name, has_master_role, owner_reference, task_labels
from tfjob.api.objects import ObjectMeta, OwnerReference, Pod, Service
from tfjob.api.origin import origin
from tfjob.api.types import CONTAINER_NAME, DEFAULT_PORT, PORT_NAME, ReplicaSpec, TFJob
from tfjob.plan.tasks import ATTEMPT, SIZE, Task, desired, replicas_of
from tfjob.plan.tf_config import main_template_container, port, tf_config

DEFAULT_TF_IMAGE = "tensorflow/tensorflow:1.3.0"
DEFAULT_PS_PROGRAM = (
    "import json, os, tensorflow as tf; config = json.loads(os.environ['TF_CONFIG']); "
    "server = getattr(tf, 'distribute', tf.train); server = getattr(server, 'Server', None) or tf.train.Server; "
    "server(config['cluster'], job_name=config['task']['type'], task_index=config['task']['index']).join()"
)
"""The parameter server that v1alpha1 gives to a PS replica without a template: serve variables for ever."""


@dataclass(frozen=True)
class Settings:
    """What the operator, and not the job, decides."""

    cluster_domain: str = ""
    pending_grace: timedelta = timedelta(minutes=5)
    last_lines: bool = True


def pod(job: TFJob, task: Task, attempt: int, settings: Settings) -> Pod:
    """The pod of a task for one attempt."""
    replica = job.spec.tf_replica_specs[task.type]
    template = copy.deepcopy(replica.template) if replica.template is not None else default_parameter_server(job)
    metadata: dict[str, Any] = template.get("metadata") or {}
    spec: dict[str, Any] = template.get("spec") or {}
    labels = {**(metadata.get("labels") or {}), **task_labels(job, task.type, task.index)}
    if has_master_role(job, task.type, task.index):
        labels[JOB_ROLE_LABEL] = "master"
    annotations = {**(metadata.get("annotations") or {}), ATTEMPT: str(attempt), SIZE: cluster_size(job)}
    spec["restartPolicy"] = pod_restart_policy(replica)
    _add_tf_config(job, task, template, settings)
    for container in spec.get("containers") or () if settings.last_lines else ():
        container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    return Pod(
        metadata=ObjectMeta(
            name=child_name(job, task.type, task.index),
            namespace=job.metadata.namespace,
            labels=labels,
            annotations=annotations,
            owner_references=[_owner(job)],
            finalizers=list(metadata.get("finalizers") or ()),
        ),
        spec=spec,
    )


def service(job: TFJob, task: Task) -> Service:
    """The headless service that gives a task its name."""
    labels = task_labels(job, task.type, task.index)
    replica = job.spec.tf_replica_specs[task.type]
    container = main_template_container(replica.template or default_parameter_server(job))
    ports = [
        {"name": entry["name"], "port": entry["containerPort"]}
        for entry in container.get("ports") or ()
        if entry.get("name")
    ]
    return Service(
        metadata=ObjectMeta(
            name=child_name(job, task.type, task.index),
            namespace=job.metadata.namespace,
            labels=labels,
            owner_references=[_owner(job)],
        ),
        spec={
            "clusterIP": "None",
            "selector": labels,
            "ports": ports or [{"name": PORT_NAME, "port": port(job, task.type)}],
        },
    )


def pod_restart_policy(replica: ReplicaSpec) -> str:
    """What the kubelet is told: ExitCode is decided by the controller, so the kubelet must not interfere."""
    policy = replica.restart_policy or "Never"
    return "Never" if policy == "ExitCode" else policy


def cluster_size(job: TFJob) -> str:
    """The cluster that TF_CONFIG describes, so that a pod made for another one can be told: `chief=1,worker=2`."""
    types = dict.fromkeys(task.type for task in desired(job))
    return ",".join(f"{replica_type.lower()}={replicas_of(job, replica_type)}" for replica_type in types)


def default_parameter_server(job: TFJob) -> dict[str, Any]:
    """The template of a PS replica that has none."""
    container = {
        "name": CONTAINER_NAME,
        "image": job.spec.tf_image or DEFAULT_TF_IMAGE,
        "command": ["python", "-c", DEFAULT_PS_PROGRAM],
        "ports": [{"name": PORT_NAME, "containerPort": DEFAULT_PORT}],
    }
    return {"spec": {"containers": [container], "restartPolicy": "OnFailure"}}


def _add_tf_config(job: TFJob, task: Task, template: dict[str, Any], settings: Settings) -> None:
    value = tf_config(job, task, settings.cluster_domain)
    if value is None:
        return
    every = origin(job).tf_config_in_every_container
    containers = template["spec"]["containers"] if every else [main_template_container(template)]
    for container in containers:
        container["env"] = [*(container.get("env") or ()), {"name": "TF_CONFIG", "value": value}]


def _owner(job: TFJob) -> OwnerReference:
    return msgspec.convert(owner_reference(job), OwnerReference)
