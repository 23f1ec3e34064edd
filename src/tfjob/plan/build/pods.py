"""The pod and the service of one task, as training-operator v1.9 makes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tfjob.api.defaults import serves_by_default, training_container
from tfjob.api.dialect import origin
from tfjob.api.names import JOB_ROLE_LABEL, child_metadata, child_name, has_master_role, task_labels
from tfjob.api.objects import Pod, Service
from tfjob.api.types import EVALUATOR, PORT_NAME, REPLICA_TYPES, TFJob
from tfjob.plan.build import parameter_server
from tfjob.plan.build.accelerators import equipped
from tfjob.plan.build.job_storage import with_storage
from tfjob.plan.build.parameter_server import DEFAULT_TF_IMAGE
from tfjob.plan.build.pod_groups import pod_annotations, pod_labels, scheduler_name
from tfjob.plan.build.settings import Settings
from tfjob.plan.facts.tasks import ATTEMPT, Task, policy_of, replicas_of
from tfjob.plan.facts.tf_config import port, tf_configs

SIZE = "tfjob/cluster-size"
"""Annotation of a pod: the size of the cluster that its TF_CONFIG describes."""


def pod(job: TFJob, task: Task, attempt: int, settings: Settings) -> Pod:
    return next(pods(job, [(task, attempt)], settings))


def pods(job: TFJob, attempts: Sequence[tuple[Task, int]], settings: Settings) -> Iterator[Pod]:
    configs = tf_configs(job, [task for task, _ in attempts], settings.cluster_domain)
    size, scheduler = cluster_size(job), settings.gang_scheduler
    for (task, attempt), config in zip(attempts, configs, strict=True):
        template = template_of(job, task.type, settings.tf_image)
        metadata: dict[str, Any] = template.get("metadata") or {}
        labels = {
            **(metadata.get("labels") or {}),
            **task_labels(job, task.type, task.index),
            **pod_labels(job, scheduler),
        }
        if has_master_role(job, task.type, task.index):
            labels[JOB_ROLE_LABEL] = "master"
        annotations = {
            **(metadata.get("annotations") or {}),
            **pod_annotations(job, task.type, scheduler),
            ATTEMPT: str(attempt),
            SIZE: size,
        }
        name, finalizers = child_name(job, task.type, task.index), list(metadata.get("finalizers") or ())
        yield Pod(
            metadata=child_metadata(job, name, labels, annotations=annotations, finalizers=finalizers),
            spec=_pod_spec(job, task, template, config, settings),
        )


def service(job: TFJob, task: Task) -> Service:
    labels = task_labels(job, task.type, task.index)
    spec: dict[str, Any] = {"selector": labels, "ports": [{"name": "tf-port", "port": port(job, task.type)}]}
    if origin(job).headless_services:
        declared = training_container(template_of(job, task.type)).get("ports") or ()
        ports = [{"name": one["name"], "port": one["containerPort"]} for one in declared if one.get("name")]
        spec |= {"clusterIP": "None", "ports": ports or [{"name": PORT_NAME, "port": port(job, task.type)}]}
    return Service(metadata=child_metadata(job, child_name(job, task.type, task.index), labels), spec=spec)


def pod_restart_policy(job: TFJob, task: Task) -> str:
    """Return the kubelet's restart policy: Never if the controller decides about restarts."""
    policy = policy_of(job, task)
    return "Never" if policy == "ExitCode" or origin(job).restarts_by_role else policy


def template_of(job: TFJob, replica_type: str, tf_image: str = "") -> dict[str, Any]:
    """Return the pod template of a type: the user's, with the default parameter server if it applies."""
    replica = job.spec.tf_replica_specs[replica_type]
    template = replica.template or {}
    if not serves_by_default(job, replica_type, replica):
        return template
    return parameter_server.with_server(job, template, job.spec.tf_image or tf_image or DEFAULT_TF_IMAGE)


def cluster_size(job: TFJob) -> str:
    """Return the size of the cluster in TF_CONFIG, without evaluators: `chief=1,worker=2`."""
    sizes = ((kind, replicas_of(job, kind)) for kind in REPLICA_TYPES if kind != EVALUATOR)
    return ",".join(f"{kind.lower()}={size}" for kind, size in sizes if size)


def _pod_spec(
    job: TFJob, task: Task, template: dict[str, Any], config: str | None, settings: Settings
) -> dict[str, Any]:
    """Return the template's spec with the operator's additions; nested values are shared with the template."""
    given, _ = equipped(template.get("spec") or {}, settings.accelerators)
    given = with_storage(job, task, given, for_all=settings.storage_for_all)
    spec = {**given, "restartPolicy": pod_restart_policy(job, task)}
    if settings.gang_scheduler and not given.get("schedulerName"):
        spec["schedulerName"] = scheduler_name(settings.gang_scheduler)
    added = {"terminationMessagePolicy": "FallbackToLogsOnError"} if settings.last_lines else {}
    for kind in ("initContainers", "containers"):
        if given.get(kind):
            spec[kind] = [{**added, **container} for container in given[kind]]
    main, everywhere = training_container({"spec": spec}), origin(job).tf_config_in_every_container
    is_ours = serves_by_default(job, task.type, job.spec.tf_replica_specs[task.type])
    if is_ours and main["command"] == parameter_server.COMMAND:
        main["command"] = [*main["command"], *parameter_server.flags(job, task, settings.cluster_domain)]
    if config is not None:
        for container in spec.get("containers") or ():
            if everywhere or container is main:
                container["env"] = [*(container.get("env") or ()), {"name": "TF_CONFIG", "value": config}]
    return spec
