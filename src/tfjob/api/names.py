"""Names and labels of a job's children, as training-operator v1.9 gives them (or v1alpha1, for jobs written for it)."""

from __future__ import annotations

import hashlib

from tfjob.api.dialect import origin
from tfjob.api.objects import OPERATOR_NAME, OPERATOR_NAME_LABEL, OwnerReference
from tfjob.api.types import CHIEF, MASTER, RUNTIME_ID, WORKER, TFJob

REPLICA_TYPE_LABEL = "training.kubeflow.org/replica-type"
REPLICA_INDEX_LABEL = "training.kubeflow.org/replica-index"
JOB_ROLE_LABEL = "training.kubeflow.org/job-role"

FIRST_LABEL, RUNTIME_ID_LABEL = "tensorflow.org", "runtime_id"
"""What children with a random id carry; the first one is empty."""

RUNTIME_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


def child_name(job: TFJob, replica_type: str, index: int) -> str:
    """The name of the pod and of the service of one task."""
    habits = origin(job)
    return habits.child_name.format(
        job=job.metadata.name,
        type=replica_type.lower(),
        index=index,
        runtime=runtime_id(job) if habits.has_runtime_id else "",
    )


def tensorboard_name(job: TFJob) -> str:
    """The name of the Deployment and of the Service of a job's TensorBoard."""
    habits = origin(job)
    return habits.tensorboard_name.format(
        job=job.metadata.name, runtime=runtime_id(job) if habits.has_runtime_id else ""
    )


def server_program_name(job: TFJob) -> str:
    """Return the name of the ConfigMap with the program of default parameter servers."""
    habits = origin(job)
    return habits.server_program_name.format(
        job=job.metadata.name, runtime=runtime_id(job) if habits.has_runtime_id else ""
    )


def task_name(replica_type: str, index: int) -> str:
    """How people and the status call a task: `worker-0`."""
    return f"{replica_type.lower()}-{index}"


def runtime_id(job: TFJob) -> str:
    """The four characters of a TfJob: those that its children have, else those that its spec asks for.

    Without any they are derived from the uid, so that every reader finds the same.
    """
    recorded = job.status.runtime_id or job.metadata.annotations.get(RUNTIME_ID)
    if recorded:
        return recorded.lower()
    digest = hashlib.sha256(f"{job.metadata.uid}/{job.metadata.name}".encode()).digest()
    return "".join(RUNTIME_ALPHABET[byte % len(RUNTIME_ALPHABET)] for byte in digest[:4])


def job_labels(job: TFJob) -> dict[str, str]:
    """What selects every child of a job."""
    labels = {OPERATOR_NAME_LABEL: OPERATOR_NAME, name_label(job): job.metadata.name}
    if origin(job).has_runtime_id:
        labels |= {FIRST_LABEL: "", RUNTIME_ID_LABEL: runtime_id(job)}
    return labels


def name_label(job: TFJob) -> str:
    """Return the label that holds a job's name."""
    return origin(job).name_label


def task_labels(job: TFJob, replica_type: str, index: int) -> dict[str, str]:
    """What selects the children of one task."""
    labels = {
        **job_labels(job),
        REPLICA_TYPE_LABEL: replica_type.lower(),
        REPLICA_INDEX_LABEL: str(index),
    }
    if origin(job).has_runtime_id:
        labels |= {"job_type": replica_type.upper(), "task_index": str(index)}
    return labels


def has_master_role(job: TFJob, replica_type: str, index: int) -> bool:
    """Whether a task is the one whose logs speak for the job: the chief or master, else worker 0."""
    if {CHIEF, MASTER} & job.spec.tf_replica_specs.keys():
        return replica_type in (CHIEF, MASTER)
    return replica_type == WORKER and index == 0


def owner_reference(job: TFJob) -> OwnerReference:
    """The reference that makes a child go with its job."""
    api_version, kind = origin(job).owner
    return OwnerReference(
        api_version=api_version,
        kind=kind,
        name=job.metadata.name,
        uid=job.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
