"""The pod and the service of one task, as training-operator v1.9 makes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tfjob import __version__
from tfjob.api.defaults import serves_by_default
from tfjob.api.dialect import origin
from tfjob.api.names import JOB_ROLE_LABEL, child_name, has_master_role, owner_reference, task_labels
from tfjob.api.objects import ObjectMeta, Pod, Service
from tfjob.api.types import EVALUATOR, PORT_NAME, REPLICA_TYPES, TFJob
from tfjob.durations import USUAL, Durations
from tfjob.plan.build import parameter_server
from tfjob.plan.build.accelerators import Accelerator, equipped
from tfjob.plan.build.job_storage import with_storage
from tfjob.plan.build.parameter_server import DEFAULT_TF_IMAGE
from tfjob.plan.build.pod_groups import pod_annotations, pod_labels, scheduler_name
from tfjob.plan.facts.tasks import ATTEMPT, Task, policy_of, replicas_of
from tfjob.plan.facts.tf_config import main_template_container, port, tf_configs

SIZE = "tfjob/cluster-size"
"""Annotation of a pod: the size of the cluster that its TF_CONFIG describes."""
FALLBACK = "FallbackToLogsOnError"

TENSORBOARD_IMAGE = f"localhost/tf-job-tensorboard:{__version__}"
"""As tools/image.py makes it; an installation names the one in its registry."""


@dataclass(frozen=True)
class Settings:
    """What the operator, and not the job, decides.

    `gang_scheduler` names the scheduler that starts the pods of a job together: `volcano` in any case means Volcano,
    any other name one with the coscheduling plugin of scheduler-plugins, no name that there is none.
    `accelerators` says by resource name what pods need that ask for it. Default parameter servers run in `tf_image`
    where a job names none, and run `server_program` in place of ours if there is one. With `storage_for_all` a job
    has storage of its own even if it does not name the volume. `durations` are not for users: a test shortens them.
    """

    cluster_domain: str = ""
    pending_grace: timedelta = timedelta(minutes=5)
    last_lines: bool = True
    gang_scheduler: str = ""
    accelerators: Mapping[str, Accelerator] = field(default_factory=dict)
    tf_image: str = ""
    server_program: str = ""
    tensorboard_image: str = TENSORBOARD_IMAGE
    storage_for_all: bool = False
    durations: Durations = USUAL


def pod(job: TFJob, task: Task, attempt: int, settings: Settings) -> Pod:
    """The pod of a task for one attempt."""
    return next(pods(job, [(task, attempt)], settings))


def pods(job: TFJob, attempts: Sequence[tuple[Task, int]], settings: Settings) -> Iterator[Pod]:
    """The pods of many tasks, each for its attempt."""
    configs = tf_configs(job, [task for task, _ in attempts], settings.cluster_domain)
    size, owner, scheduler = cluster_size(job), owner_reference(job), settings.gang_scheduler
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
        yield Pod(
            metadata=ObjectMeta(
                name=child_name(job, task.type, task.index),
                namespace=job.metadata.namespace,
                labels=labels,
                annotations={
                    **(metadata.get("annotations") or {}),
                    **pod_annotations(job, task.type, scheduler),
                    ATTEMPT: str(attempt),
                    SIZE: size,
                },
                owner_references=[owner],
                finalizers=list(metadata.get("finalizers") or ()),
            ),
            spec=_pod_spec(job, task, template, config, settings),
        )


def service(job: TFJob, task: Task) -> Service:
    """Return the service that gives a task its name."""
    labels = task_labels(job, task.type, task.index)
    metadata = ObjectMeta(
        name=child_name(job, task.type, task.index),
        namespace=job.metadata.namespace,
        labels=labels,
        owner_references=[owner_reference(job)],
    )
    if not origin(job).headless_services:
        ports = [{"name": "tf-port", "port": port(job, task.type)}]
        return Service(metadata=metadata, spec={"selector": labels, "ports": ports})
    container = main_template_container(template_of(job, task.type))
    ports = [
        {"name": entry["name"], "port": entry["containerPort"]}
        for entry in container.get("ports") or ()
        if entry.get("name")
    ]
    return Service(
        metadata=metadata,
        spec={
            "clusterIP": "None",
            "selector": labels,
            "ports": ports or [{"name": PORT_NAME, "port": port(job, task.type)}],
        },
    )


def pod_restart_policy(job: TFJob, task: Task) -> str:
    """What the kubelet is told: where the controller decides, as under ExitCode, the kubelet must not interfere."""
    policy = policy_of(job, task)
    return "Never" if policy == "ExitCode" or origin(job).restarts_by_role else policy


def template_of(job: TFJob, replica_type: str, tf_image: str = "") -> dict[str, Any]:
    """The pod template of a type: the user's, with the default parameter server if it has none of its own."""
    replica = job.spec.tf_replica_specs[replica_type]
    template = replica.template or {}
    if not serves_by_default(job, replica_type, replica):
        return template
    return parameter_server.with_server(job, template, job.spec.tf_image or tf_image or DEFAULT_TF_IMAGE)


def cluster_size(job: TFJob) -> str:
    """The cluster that TF_CONFIG describes, so that a pod made for another one can be told: `chief=1,worker=2`.

    Without evaluators: their number concerns nobody else.
    """
    sizes = ((kind, replicas_of(job, kind)) for kind in REPLICA_TYPES if kind != EVALUATOR)
    return ",".join(f"{kind.lower()}={size}" for kind, size in sizes if size)


def _pod_spec(
    job: TFJob, task: Task, template: dict[str, Any], config: str | None, settings: Settings
) -> dict[str, Any]:
    """The template's spec with what the operator adds; the rest is shared with the template, which nobody changes."""
    given, _ = equipped(template.get("spec") or {}, settings.accelerators)
    given = with_storage(job, task, given, for_all=settings.storage_for_all)
    main, everywhere = main_template_container({"spec": given}), origin(job).tf_config_in_every_container
    spec = {**given, "restartPolicy": pod_restart_policy(job, task)}
    if settings.gang_scheduler and not given.get("schedulerName"):
        spec["schedulerName"] = scheduler_name(settings.gang_scheduler)
    for kind in ("initContainers", "containers"):
        if given.get(kind) and settings.last_lines:
            spec[kind] = [{"terminationMessagePolicy": FALLBACK, **container} for container in given[kind]]
    is_ours = serves_by_default(job, task.type, job.spec.tf_replica_specs[task.type])
    if is_ours and main["command"] == parameter_server.COMMAND:
        words = [*main["command"], *parameter_server.flags(job, task, settings.cluster_domain)]
        spec["containers"] = [
            {**made, "command": words} if own is main else made
            for own, made in zip(given["containers"], spec["containers"], strict=True)
        ]
    if config is not None:
        variable = {"name": "TF_CONFIG", "value": config}
        spec["containers"] = [
            {**made, "env": [*(made.get("env") or ()), variable]} if everywhere or own is main else made
            for own, made in zip(given.get("containers") or (), spec.get("containers") or (), strict=True)
        ]
    return spec
