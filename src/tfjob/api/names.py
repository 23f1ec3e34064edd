"""Names and labels of a job's children, as training-operator v1.9 gives them (or v1alpha1, for jobs written for it)."""

from __future__ import annotations

import hashlib
from typing import Any

from tfjob.api.dialect import origin
from tfjob.api.objects import OPERATOR_NAME, OPERATOR_NAME_LABEL, ObjectMeta, OwnerReference
from tfjob.api.types import CHIEF, MASTER, RUNTIME_ID, WORKER, TFJob

REPLICA_TYPE_LABEL = "training.kubeflow.org/replica-type"
REPLICA_INDEX_LABEL = "training.kubeflow.org/replica-index"
JOB_ROLE_LABEL = "training.kubeflow.org/job-role"

FIRST_LABEL, RUNTIME_ID_LABEL = "tensorflow.org", "runtime_id"
"""The labels of children with a random id. The value of the first label is empty."""

RUNTIME_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


def child_name(job: TFJob, replica_type: str, index: int) -> str:
    """Return the name of a replica's pod and Service."""
    return _name(job, origin(job).child_name, type=replica_type.lower(), index=index)


def tensorboard_name(job: TFJob) -> str:
    return _name(job, origin(job).tensorboard_name)


def server_program_name(job: TFJob) -> str:
    return _name(job, origin(job).server_program_name)


def _name(job: TFJob, pattern: str, **values: str | int) -> str:
    runtime = runtime_id(job) if origin(job).has_runtime_id else ""
    return pattern.format(job=job.metadata.name, runtime=runtime, **values)


def task_name(replica_type: str, index: int) -> str:
    """Return the name of a replica, as users and the status write it: `worker-0`."""
    return f"{replica_type.lower()}-{index}"


def runtime_id(job: TFJob) -> str:
    """Return the random id of a TfJob from its status or its spec; without either, derive it from the uid."""
    recorded = job.status.runtime_id or job.metadata.annotations.get(RUNTIME_ID)
    if recorded:
        return recorded.lower()
    digest = hashlib.sha256(f"{job.metadata.uid}/{job.metadata.name}".encode()).digest()
    return "".join(RUNTIME_ALPHABET[byte % len(RUNTIME_ALPHABET)] for byte in digest[:4])


def job_labels(job: TFJob) -> dict[str, str]:
    labels = {OPERATOR_NAME_LABEL: OPERATOR_NAME, origin(job).name_label: job.metadata.name}
    if origin(job).has_runtime_id:
        labels |= {FIRST_LABEL: "", RUNTIME_ID_LABEL: runtime_id(job)}
    return labels


def task_labels(job: TFJob, replica_type: str, index: int) -> dict[str, str]:
    labels = {**job_labels(job), REPLICA_TYPE_LABEL: replica_type.lower(), REPLICA_INDEX_LABEL: str(index)}
    if origin(job).has_runtime_id:
        labels |= {"job_type": replica_type.upper(), "task_index": str(index)}
    return labels


def has_master_role(job: TFJob, replica_type: str, index: int) -> bool:
    """Return whether a replica represents the job: the chief or master, otherwise worker 0."""
    if {CHIEF, MASTER} & job.spec.tf_replica_specs.keys():
        return replica_type in (CHIEF, MASTER)
    return replica_type == WORKER and index == 0


def child_metadata(job: TFJob, name: str, labels: dict[str, str], **more: Any) -> ObjectMeta:
    references = [owner_reference(job)]
    return ObjectMeta(name=name, namespace=job.metadata.namespace, labels=labels, owner_references=references, **more)


def owner_reference(job: TFJob) -> OwnerReference:
    resource = origin(job).resource
    return OwnerReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=job.metadata.name,
        uid=job.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
