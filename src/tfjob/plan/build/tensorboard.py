"""The TensorBoard of a job: a Deployment and a Service, from the job's start until its deletion.

It has the identity of the replica that represents the job: its service account, its pull secrets and, for a log folder
in an object store, its environment variables. Suspending a job and `cleanPodPolicy` do not affect it: it uses no
accelerator, and people look at its curves before they resume or delete a job. On this machine it ends with the job,
because nothing stays in the background.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from tfjob.api.defaults import training_container
from tfjob.api.dialect import TF_JOB_NAME_LABEL, origin
from tfjob.api.names import RUNTIME_ID_LABEL, child_metadata, job_labels, runtime_id, tensorboard_name
from tfjob.api.objects import NEEDED_MODULE, Deployment, ObjectMeta, Service
from tfjob.api.servers import TENSORBOARD_OPTIONS, TENSORBOARD_PROGRAM
from tfjob.api.types import REPLICA_TYPES, TensorBoard, TFJob
from tfjob.controller.actions import Action, Create, Delete
from tfjob.controller.kind import Observation
from tfjob.plan.build.pods import template_of
from tfjob.plan.build.settings import Settings
from tfjob.plan.facts.conditions import is_finished
from tfjob.plan.facts.tasks import representative

PORT, SERVICE_PORT, PORT_NAME = 6006, 80, "tb-port"
USER_ID = 65532
"""An unprivileged user without an account, as in our image."""
POD = {
    "automountServiceAccountToken": False,
    "enableServiceLinks": False,
    "terminationGracePeriodSeconds": 5,
    "securityContext": {
        "runAsNonRoot": True,
        "runAsUser": USER_ID,
        "runAsGroup": USER_ID,
        "seccompProfile": {"type": "RuntimeDefault"},
    },
}
RESOURCES = {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "2Gi"}}
"""For nodes, which are shared. On this machine there is no limit, because checking one costs CPU time."""
MADE_OF = "tfjob/made-of"
"""Annotation: a digest of the job's fields for this object, to detect an edit.

It does not include what the operator adds, such as its default image: a newer operator must not restart the
TensorBoards of all jobs.
"""
OBJECT_STORES = ("s3://", "gs://")
STORE_VARIABLES = ("AWS_", "S3_", "GOOGLE_", "GCE_METADATA_")
"""Prefixes of environment variables with the address and the credentials of an object store."""


def steps(job: TFJob, board: Observation, settings: Settings) -> list[Action]:
    """Return the actions for the TensorBoard of a started job: delete outdated children, then create missing ones."""
    wanted: list[Deployment | Service] = []
    is_over = settings.local_tensorboard and (is_finished(job.status) or job.spec.run_policy.suspend)
    if job.spec.tensor_board is not None and job.status.attempt and not is_over:
        wanted = [deployment(job, settings), service(job, settings)]
    present = {child.kind: child for child in (*board.of(Deployment), *board.of(Service))}
    made_of = {child.kind: child.metadata.annotations[MADE_OF] for child in wanted}
    removals = [
        Delete(kind, child.metadata.name, child.metadata.uid)
        for kind, child in present.items()
        if job.status.attempt
        and child.metadata.deletion_timestamp is None
        and child.metadata.annotations.get(MADE_OF) != made_of.get(kind)
    ]
    return [*removals, *(Create(child) for child in wanted if child.kind not in present)]


def deployment(job: TFJob, settings: Settings) -> Deployment:
    """Return the Deployment; its pods meet the `restricted` pod security standard with any image."""
    board = job.spec.tensor_board
    assert board is not None
    template = _speaker(job)
    identity, access = _identity(template), _store_access(board, training_container(template))
    pod: dict[str, Any] = {**POD, "containers": [{**_container(job, board, settings), **access}], **identity}
    if board.volumes:
        pod["volumes"] = board.volumes
    selector = labels(job)
    metadata: dict[str, Any] = {"labels": selector}
    wishes: list[object] = [board.log_dir, board.image, board.volumes, board.volume_mounts]
    if settings.local_tensorboard:
        metadata["annotations"] = {NEEDED_MODULE: "tensorboard"}
        wishes.append(TENSORBOARD_PROGRAM)
    spec = {
        "replicas": 1,
        "revisionHistoryLimit": 0,
        "strategy": {"type": "Recreate"},  # a volume may allow only one pod at a time
        "selector": {"matchLabels": selector},
        "template": {"metadata": metadata, "spec": pod},
    }
    return Deployment(metadata=_metadata(job, [*wishes, identity, access]), spec=spec)


def service(job: TFJob, settings: Settings) -> Service:
    """Return the Service: port 80 on a cluster; on this machine not every user may listen on port 80."""
    board = job.spec.tensor_board
    assert board is not None
    port = PORT if settings.local_tensorboard else SERVICE_PORT
    spec = {
        "type": board.service_type or "ClusterIP",
        "selector": labels(job),
        "ports": [{"name": PORT_NAME, "port": port, "targetPort": PORT}],
    }
    return Service(metadata=_metadata(job, board.service_type), spec=spec)


def _container(job: TFJob, board: TensorBoard, settings: Settings) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": tensorboard_name(job),
        "image": board.image or settings.tensorboard_image,
        "imagePullPolicy": "IfNotPresent",
        "command": _command(board, settings),
        "ports": [{"name": PORT_NAME, "containerPort": PORT}],
        # An image with TensorFlow takes several seconds, and longer on a busy node.
        "startupProbe": _probe(periodSeconds=1, failureThreshold=180),
        "readinessProbe": _probe(periodSeconds=5, failureThreshold=3),
        # It may answer slowly while it reads many files for the first time.
        "livenessProbe": _probe(periodSeconds=20, failureThreshold=6),
        "resources": {} if settings.local_tensorboard else RESOURCES,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    if board.volume_mounts:
        container["volumeMounts"] = board.volume_mounts
    return container


def _command(board: TensorBoard, settings: Settings) -> list[str]:
    where = ["--logdir", board.log_dir, "--port", str(PORT)]
    if settings.local_tensorboard:
        return ["python", "-c", TENSORBOARD_PROGRAM, *where, "--host", "127.0.0.1", *TENSORBOARD_OPTIONS]
    # `--bind_all` includes IPv6 but needs TensorBoard 1.15; an image that a job names may be older.
    everywhere = ("--host", "0.0.0.0") if board.image else ("--bind_all",)  # noqa: S104
    return ["tensorboard", *where, *everywhere]


def _identity(template: Mapping[str, Any]) -> dict[str, Any]:
    pod: Mapping[str, Any] = template.get("spec") or {}
    return {name: pod[name] for name in ("serviceAccountName", "imagePullSecrets") if pod.get(name)}


def _store_access(board: TensorBoard, trainer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the environment variables of the training container for an object store with the log folder."""
    if not board.log_dir.startswith(OBJECT_STORES):
        return {}
    own = [one for one in trainer.get("env") or () if str(one.get("name", "")).startswith(STORE_VARIABLES)]
    found = {"env": own, "envFrom": trainer.get("envFrom")}
    return {name: value for name, value in found.items() if value}


def _speaker(job: TFJob) -> dict[str, Any]:
    task = representative(job)
    types = (one for one in REPLICA_TYPES if one in job.spec.tf_replica_specs)
    return template_of(job, task.type if task else next(types))


def labels(job: TFJob) -> dict[str, str]:
    """Return the labels of the pods, which must not match a selector of replica labels."""
    habits = origin(job)
    common = {"app": "tensorboard", TF_JOB_NAME_LABEL: job.metadata.name, habits.resource.group: ""}
    return {**common, RUNTIME_ID_LABEL: runtime_id(job)} if habits.has_runtime_id else common


def _metadata(job: TFJob, wishes: object) -> ObjectMeta:
    digest = hashlib.sha256(msgspec.json.encode(wishes, order="sorted")).hexdigest()[:16]
    selected = {**labels(job), **job_labels(job)}
    return child_metadata(job, tensorboard_name(job), selected, annotations={MADE_OF: digest})


def _probe(**settings: int) -> dict[str, Any]:
    return {"httpGet": {"path": "/", "port": PORT_NAME}, "timeoutSeconds": 10, **settings}
