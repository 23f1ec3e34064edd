"""The pods of a TfJob: each in a batch/v1 Job, which makes it and never makes another; pure.

The plan knows pods alone. Here its pod becomes a Job, and the Job with the pod that the Job controller made of it
becomes the plan's pod again: by the Job's name and uid, so that to remove the one is to remove the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from tfjob.api.objects import (
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    Job,
    ObjectMeta,
    Pod,
    PodCondition,
    PodStatus,
)
from tfjob.api.types import CONTAINER_NAME

NEVER = {"restartPolicy": "Never"}


def wrapper(pod: Pod) -> Job:
    """The Job that runs a pod once.

    A pod that somebody deletes counts as a failure, and none is allowed, so it is not replaced: whether there will be
    another one, and when, is decided by the plan. By `podReplacementPolicy`, which Kubernetes has since 1.29, the Job
    does not fail before the pod has ended.
    """
    metadata = pod.metadata
    template: dict[str, Any] = {
        "metadata": {"labels": metadata.labels, "annotations": metadata.annotations, "finalizers": metadata.finalizers},
        "spec": pod.spec,
    }
    return Job(
        metadata=replace(metadata, finalizers=[]),
        spec={
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "podReplacementPolicy": "Failed",
            "template": template,
        },
    )


def unwrapped(job: Job, pods: Sequence[Pod]) -> Pod:
    """The pod that the plan asked for, as it stands: `pods` are those that the Job controller made."""
    if not pods:
        return Pod(metadata=job.metadata, spec=NEVER, status=_without_pod(job))
    made = max(pods, key=lambda pod: (str(pod.metadata.creation_timestamp), pod.metadata.name))
    # A Job has no grace period: with a pod that has one, both are gone when that is over.
    times = [one.metadata.deletion_timestamp for one in (job, made) if one.metadata.deletion_timestamp]
    metadata: ObjectMeta = replace(job.metadata, deletion_timestamp=max(times, default=None))
    return Pod(metadata=metadata, spec=made.spec, status=made.status)


def has_failed(job: Job) -> bool:
    """Whether the pod of a Job ended badly, or was deleted."""
    return "Failed" in _held(job)


def _held(job: Job) -> dict[str, PodCondition]:
    return {condition.type: condition for condition in job.status.conditions if condition.status == "True"}


def _without_pod(job: Job) -> PodStatus:
    """What a Job tells of a pod that is still to come, or is gone."""
    held = _held(job)
    if "Complete" in held:
        done = ContainerTerminated(exit_code=0, finished_at=held["Complete"].last_transition_time)
        container = ContainerStatus(name=CONTAINER_NAME, state=ContainerState(terminated=done))
        return PodStatus(phase="Succeeded", container_statuses=[container])
    if has_failed(job):
        # A pod that failed by itself is kept: this one was deleted before its end.
        return PodStatus(phase="Failed", reason="Terminated", message="its pod was deleted")
    return PodStatus(phase="Pending")
