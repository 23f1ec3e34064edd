"""The 2017 TfJob of tensorflow.org on a cluster: the defaults and the random id that are written into it, and its pods.

The random id is part of the names of all children. A batch/v1 Job wraps each pod; it makes the pod once and never
replaces it. The plan knows only pods: this module turns its pod into a Job, and the Job with the pod of the Job
controller back into the plan's pod, with the Job's name and uid, so that removing the pod removes the Job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress
from random import SystemRandom
from typing import Any

import msgspec
from msgspec.structs import replace

from tfjob.api.dialect import TF_JOBS
from tfjob.api.names import RUNTIME_ALPHABET, RUNTIME_ID_LABEL, child_name, server_program_name, tensorboard_name
from tfjob.api.objects import (
    OPERATOR_NAME,
    OPERATOR_NAME_LABEL,
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    Job,
    ObjectMeta,
    Pod,
    PodCondition,
    PodStatus,
)
from tfjob.api.problems import errors
from tfjob.api.resources import CONFIG_MAPS, DEPLOYMENTS, JOBS, SERVICES, Resource
from tfjob.api.types import CONTAINER_NAME, RUNTIME_ID, TFJob
from tfjob.api.versions.registry import judge, tf_job_manifest
from tfjob.api.versions.v1alpha1 import canonical_spec, completed
from tfjob.controller.kind import Stored
from tfjob.kube.access.errors import NotFound
from tfjob.kube.client.client import Client
from tfjob.kube.client.patches import difference
from tfjob.plan.build.parameter_server import DEFAULT_TF_IMAGE
from tfjob.plan.facts.tasks import desired
from tfjob.plan.kind import TfJobKind

ID_LENGTH = 4
_random = SystemRandom()
NEVER = {"restartPolicy": "Never"}


class _Named(msgspec.Struct):
    """An object of which only the name matters."""

    metadata: ObjectMeta


class _Recorded(msgspec.Struct):
    runtime_id: str = msgspec.field(default="", name="RuntimeId")


def drawn() -> str:
    return "".join(_random.choices(RUNTIME_ALPHABET, k=ID_LENGTH))


class TensorFlowOrgStorage:
    """How a cluster stores 2017 TfJobs; `kind` has the operator's settings."""

    wrapper = Job

    def __init__(self, client: Client, kind: TfJobKind) -> None:
        self._client = client
        self._kind = kind

    async def complete(self, owner: TFJob, stored: Stored, others: Iterable[Stored]) -> bool:
        """Write the random id and defaults into a new or edited spec, over the version that was read."""
        metadata = owner.metadata
        if metadata.generation == owner.status.observed_generation:
            return False
        if errors(judge(tf_job_manifest(stored.metadata, stored.spec))):
            return False  # a write would lose the parts that cannot be read
        runtime_id = owner.status.runtime_id
        if not runtime_id:
            used = {_recorded(other) for other in others if other.metadata.uid != metadata.uid}
            given = metadata.annotations.get(RUNTIME_ID, "").lower()
            # If another job has the id, the manifest is a copy of that job's.
            runtime_id = given if given and given not in used else await draw(self._client, owner, used)
        spec = msgspec.json.decode(stored.spec, type=dict[str, Any])
        wanted = completed(canonical_spec(spec), runtime_id, self._kind.settings.tf_image or DEFAULT_TF_IMAGE)
        patch = difference(spec, wanted, whole=True)  # also removes fields that are spelled differently now
        if patch:
            body = {"metadata": {"resourceVersion": metadata.resource_version}, "spec": patch}
            await self._client.patch(TF_JOBS, metadata.namespace, metadata.name, body)
        return bool(patch)

    @staticmethod
    def wrap(pod: Pod) -> Job:
        """Return the Job that runs a pod once.

        A deleted pod counts as a failure, and the Job allows none, so it does not replace the pod: the plan decides
        whether and when there is another one. With `podReplacementPolicy`, since Kubernetes 1.29, the Job does not fail
        before the pod ends.
        """
        metadata = pod.metadata
        template: dict[str, Any] = {
            "metadata": {
                "labels": metadata.labels,
                "annotations": metadata.annotations,
                "finalizers": metadata.finalizers,
            },
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

    @staticmethod
    def unwrap(wrapper: Job, pods: Sequence[Pod]) -> Pod:
        """Return the current state of the plan's pod; `pods` are those that the Job controller made."""
        if not pods:
            return Pod(metadata=wrapper.metadata, spec=NEVER, status=_without_pod(wrapper))
        made = max(pods, key=lambda pod: (str(pod.metadata.creation_timestamp), pod.metadata.name))
        # A Job has no grace period: if its pod has one, both are gone when that ends.
        times = [one.metadata.deletion_timestamp for one in (wrapper, made) if one.metadata.deletion_timestamp]
        metadata: ObjectMeta = replace(wrapper.metadata, deletion_timestamp=max(times, default=None))
        return Pod(metadata=metadata, spec=made.spec, status=made.status)

    def missing_selector(self, wrapper: Job) -> str:
        """Return the selector of a failed Job's pods: a failed pod is kept, so it should exist."""
        return f"batch.kubernetes.io/controller-uid={wrapper.metadata.uid}" if has_failed(wrapper) else ""


async def draw(client: Client, job: TFJob, used: Set[str], draw_one: Callable[[], str] = drawn) -> str:
    """Return an id that no other TfJob of the namespace has, and whose names no client has used on the server."""
    foreign = await _foreign(client, job.metadata.namespace)
    while True:
        runtime_id = draw_one()
        named = replace(job, status=replace(job.status, runtime_id=runtime_id))
        if runtime_id not in used and not foreign & _names(named) and not await _is_taken(client, named):
            return runtime_id


def _recorded(stored: Stored) -> str:
    """Return the id in a stored spec; empty if it is spelled differently, until the spec is completed."""
    return msgspec.json.decode(stored.spec, type=_Recorded).runtime_id.lower()


async def _foreign(client: Client, namespace: str) -> frozenset[tuple[Resource, str]]:
    """Return the Jobs and Services of a namespace that none of our operators made."""
    selector = f"{OPERATOR_NAME_LABEL}!={OPERATOR_NAME}"
    found = set()
    for resource in (JOBS, SERVICES):
        listing = await client.list(resource, namespace, label_selector=selector, type=_Named)
        found |= {(resource, one.metadata.name) for one in listing.items}
    return frozenset(found)


async def _is_taken(client: Client, named: TFJob) -> bool:
    """Return whether Jobs or Services with this id exist, or the name of the program or the TensorBoard is taken."""
    namespace = named.metadata.namespace
    for resource in (JOBS, SERVICES):
        labels = {"labelSelector": f"{RUNTIME_ID_LABEL}={named.status.runtime_id}"}
        if (await client.page(resource, namespace, labels, size=1, type=_Named)).items:
            return True
    for resource, name in ((CONFIG_MAPS, server_program_name(named)), (DEPLOYMENTS, tensorboard_name(named))):
        with suppress(NotFound):
            await client.request("GET", resource.object_path(namespace, name))
            return True
    return False


def _names(named: TFJob) -> set[tuple[Resource, str]]:
    tasks = {child_name(named, task.type, task.index) for task in desired(named)}
    services = tasks | {tensorboard_name(named)}
    return {(JOBS, name) for name in tasks} | {(SERVICES, name) for name in services}


def has_failed(job: Job) -> bool:
    return "Failed" in _held(job)


def _held(job: Job) -> dict[str, PodCondition]:
    return {condition.type: condition for condition in job.status.conditions if condition.status == "True"}


def _without_pod(job: Job) -> PodStatus:
    """Return the status of a pod that does not exist yet, or no longer, from its Job."""
    held = _held(job)
    if "Complete" in held:
        done = ContainerTerminated(exit_code=0, finished_at=held["Complete"].last_transition_time)
        container = ContainerStatus(name=CONTAINER_NAME, state=ContainerState(terminated=done))
        return PodStatus(phase="Succeeded", container_statuses=[container])
    if has_failed(job):
        # Failed pods are kept, so this one was deleted before it ended.
        return PodStatus(phase="Failed", reason="Terminated", message="the pod was deleted")
    return PodStatus(phase="Pending")
