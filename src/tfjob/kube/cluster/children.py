"""Children of jobs as caches show them: whose they are, and which of their changes matter."""

from __future__ import annotations

from tfjob.api.dialect import TF_JOB
from tfjob.api.names import FIRST_LABEL, JOB_NAME_LABEL, TF_JOB_NAME_LABEL
from tfjob.api.objects import AnyChild, Deployment, Job, Pod, PodGroup
from tfjob.controller.cluster import Key
from tfjob.kube.client.resources import JOB_KINDS


def has_just_started(before: AnyChild | None, after: AnyChild | None) -> bool:
    """Whether all that happened to a pod is that it runs now."""
    return (
        isinstance(before, Pod)
        and isinstance(after, Pod)
        and (before.status.phase, after.status.phase) == ("Pending", "Running")
        and after.metadata.deletion_timestamp is None
    )


def owner_uid(child: AnyChild) -> str | None:
    """The uid of the job that a child belongs to."""
    return next((owner.uid for owner in child.metadata.owner_references if owner.controller), None)


def job_key(child: AnyChild) -> Key | None:
    """The job that a child, or the pod of a child, belongs to by its labels, else by its owner."""
    namespace, labels = child.metadata.namespace, child.metadata.labels
    if name := labels.get(JOB_NAME_LABEL):
        return Key(namespace, name)
    if FIRST_LABEL in labels and (name := labels.get(TF_JOB_NAME_LABEL)):
        return Key(namespace, name, TF_JOB)
    owners = (owner for owner in child.metadata.owner_references if owner.kind in JOB_KINDS)
    return next((Key(namespace, owner.name, owner.kind) for owner in owners), None)


def is_of_tf_job(child: AnyChild) -> bool:
    """Whether a TfJob owns it."""
    return any(owner.kind == TF_JOB for owner in child.metadata.owner_references)


def differ(before: AnyChild, after: AnyChild) -> bool:
    """Whether a change can matter; a pod's labels and versions change without its state."""
    if isinstance(before, Pod) and isinstance(after, Pod) and before.status != after.status:
        return True
    if isinstance(before, PodGroup) and isinstance(after, PodGroup):
        if (before.status, before.spec) != (after.status, after.spec):
            return True
    elif isinstance(before, Deployment | Job) and isinstance(after, Deployment | Job) and before.status != after.status:
        return True
    return (before.metadata.uid, before.metadata.deletion_timestamp) != (
        after.metadata.uid,
        after.metadata.deletion_timestamp,
    )
