"""What the operator writes into the spec of a TfJob, and how Jobs wrap its pods."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from support.kube.api_server import ApiServer, Seen, reply
from support.plan.builders import T0, at, begun, job, pod
from tfjob.api.dialect import TENSORFLOW, TF_JOB
from tfjob.api.objects import Job, JobStatus, ObjectMeta, OwnerReference, Pod, PodCondition, PodStatus
from tfjob.api.types import RUNTIME_ID, ChiefReference, TensorBoard, TerminationPolicy, TFJob
from tfjob.controller.kind import Key, Observation, Stored
from tfjob.kube.cache.decode import decode_owner
from tfjob.kube.client.client import Client
from tfjob.kube.cluster.cluster import KubeCluster
from tfjob.kube.cluster.event_log import EventLog
from tfjob.kube.cluster.tensorflow_org import TensorFlowOrgStorage
from tfjob.kube.jobs.jobs import job_of
from tfjob.plan.build.settings import Settings
from tfjob.plan.events import POD_DELETED
from tfjob.plan.facts.task_state import survey
from tfjob.plan.kind import TFJobKind, TfJobKind

wrap, unwrap = TensorFlowOrgStorage.wrap, TensorFlowOrgStorage.unwrap
KIND = TfJobKind(Settings(tf_image="tf:1"))
TEMPLATE = {"spec": {"containers": [{"name": "tensorflow", "image": "x:1"}]}}


def running(*replicas: dict[str, Any], **spec: Any) -> Stored:
    """Return a TfJob that was edited while it ran."""
    details = {"attempt": 1, "observedGeneration": 1, "runtimeId": "76no"}
    metadata = {"name": "j", "namespace": "n", "generation": 2, "resourceVersion": "5"}
    body = {"metadata": metadata, "spec": {"replicaSpecs": list(replicas), **spec}, "status": {"details": details}}
    return decode_owner(TF_JOB, msgspec.json.encode(body))


def written(cached: Stored) -> tuple[bool, list[Any]]:
    """Return whether defaults were missing, and the bodies that were sent."""
    job = job_of(cached)

    async def look() -> tuple[bool, list[Any]]:
        async with ApiServer(otherwise=reply({})) as server, Client(server.access()) as client:
            return await TensorFlowOrgStorage(client, KIND).complete(job, cached, []), [one.body for one in server.seen]

    return asyncio.run(look())


def test_a_valid_edit_gets_its_defaults() -> None:
    missing, (body,) = written(running({"template": TEMPLATE}))
    assert missing
    assert body["metadata"] == {"resourceVersion": "5"}
    assert body["spec"]["RuntimeId"] == "76no"
    (replica,) = body["spec"]["replicaSpecs"]
    assert (replica["tfReplicaType"], replica["tfPort"]) == ("MASTER", 2222)


@pytest.mark.parametrize(
    "fault", [{"tfPrt": 3}, {"replicas": -1}, {"template": {"spec": {**TEMPLATE["spec"], "hostNetwork": "yes"}}}]
)
def test_nothing_is_written_into_an_invalid_spec(fault: dict[str, Any]) -> None:
    """The write would remove the parts that cannot be read."""
    assert written(running({"template": TEMPLATE, **fault})) == (False, [])


def test_a_field_that_was_applied_again_replaces_the_written_one() -> None:
    """No field keeps its old spelling, not even as an empty mapping."""
    master = {"template": TEMPLATE, "tfReplicaType": "MASTER"}
    board = {"tensorboard": {"logDir": "/old", "serviceType": "NodePort"}, "TensorBoard": {"LogDir": "/new"}}
    policy = {"terminationPolicy": {"Chief": {"replicaName": "MASTER"}}}
    cached = running(master, RuntimeId="76no", replica_specs=[{**master, "tfPort": 3333}], **board, **policy)
    assert job_of(cached).spec.tensor_board == TensorBoard(log_dir="/new")
    _, (body,) = written(cached)
    patch = body["spec"]
    assert patch.items() >= {"replica_specs": None, "TensorBoard": None}.items()
    assert patch["replicaSpecs"][0]["tfPort"] == 3333
    assert patch["tensorboard"] == {"logDir": "/new", "serviceType": "ClusterIP"}
    assert patch["terminationPolicy"] == {"Chief": None, "chief": {"replicaName": "MASTER"}}


# --- pods of a TfJob in Jobs ------------------------------------------------------------------------------------------

TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def owner() -> TFJob:
    policy = TerminationPolicy(chief=ChiefReference())
    return begun(job(origin=TENSORFLOW, annotations={RUNTIME_ID: "76no"}, master=1, termination_policy=policy))


def made(*conditions: str) -> Job:
    """Return the Job of the master as a cluster stores it, with conditions that are true."""
    held = [PodCondition(type=name, status="True", last_transition_time=TIME) for name in conditions]
    one = wrap(pod(owner(), "master-0").pod)
    return replace(one, metadata=replace(one.metadata, uid="job-of-master"), status=JobStatus(conditions=held))


def of_job(name: str, second: int = 0, **status: object) -> Pod:
    """Return a pod that the Job controller made."""
    return Pod(metadata=ObjectMeta(name=name, creation_timestamp=at(second)), status=PodStatus(**status))  # type: ignore[arg-type]


def test_a_job_runs_its_pod_once_and_never_another() -> None:
    planned = pod(owner(), "master-0").pod
    made = wrap(planned)
    assert made.metadata.name == "master-76no-0"
    once = {"backoffLimit": 0, "completions": 1, "parallelism": 1, "podReplacementPolicy": "Failed"}
    assert once.items() <= made.spec.items()
    template = made.spec["template"]
    assert template["spec"] is planned.spec
    assert template["metadata"]["labels"] == planned.metadata.labels == made.metadata.labels
    assert template["metadata"]["annotations"] == made.metadata.annotations


def test_the_plan_sees_the_pod_under_the_name_and_uid_of_its_job() -> None:
    seen = unwrap(made(), [of_job("master-76no-0-abcde", phase="Running")])
    assert (seen.metadata.name, seen.metadata.uid, seen.status.phase) == ("master-76no-0", "job-of-master", "Running")


def test_the_newest_of_several_pods_counts() -> None:
    pods = [of_job("b", 9, phase="Running"), of_job("a", 1, phase="Failed")]
    assert unwrap(made(), pods).status.phase == "Running"


def test_a_deleted_pod_has_not_failed() -> None:
    leaving = of_job("x", phase="Running")
    leaving = replace(leaving, metadata=replace(leaving.metadata, deletion_timestamp=T0))
    for seen in (unwrap(made(), [leaving]), unwrap(_deleted(made()), [of_job("x", phase="Running")])):
        assert seen.metadata.deletion_timestamp == T0
        (view,) = survey(owner(), owner().status, Observation({Pod: [seen]}), at(5))
        assert view.end is not None
        assert (view.end.reason, view.end.infrastructure) == (POD_DELETED, True)


def test_a_job_terminates_with_the_grace_period_of_its_pod() -> None:
    leaving = of_job("x", phase="Running")
    leaving = replace(leaving, metadata=replace(leaving.metadata, deletion_timestamp=at(60)))
    assert unwrap(_deleted(made()), [leaving]).metadata.deletion_timestamp == at(60)


@pytest.mark.parametrize(
    ("conditions", "ends", "infrastructure"), [((), None, None), (("Complete",), 0, False), (("Failed",), None, True)]
)
def test_a_job_without_a_pod_shows_how_the_pod_ended(
    conditions: tuple[str, ...], ends: int | None, infrastructure: bool | None
) -> None:
    """The pod does not exist yet, was removed after it ended, or was deleted before it ended."""
    seen = unwrap(made(*conditions), [])
    (view,) = survey(owner(), owner().status, Observation({Pod: [seen]}), at(5))
    assert (view.end is None) == (not conditions)
    if view.end:
        assert (view.end.exit_code, view.end.infrastructure) == (ends, infrastructure)


def _deleted(one: Job) -> Job:
    return replace(one, metadata=replace(one.metadata, deletion_timestamp=T0))


@pytest.mark.parametrize("leaves", [False, True])
def test_a_terminating_pod_is_deleted_again_with_its_job(leaves: bool) -> None:
    """The garbage collector ignores such a pod, and the Job would stay with it."""

    async def run() -> list[Seen]:
        async with ApiServer(otherwise=reply({})) as server, Client(server.access()) as client:
            storages = {TF_JOB: TensorFlowOrgStorage(client, KIND)}
            cluster = KubeCluster(client, EventLog(client), [TFJobKind(), KIND], storages=storages)
            wrapping = made()
            inner = of_job("master-76no-0-abcde", phase="Failed")
            deletion = T0 if leaves else None
            owners = [OwnerReference(kind="Job", name="master-76no-0", uid=wrapping.metadata.uid, controller=True)]
            metadata = replace(
                inner.metadata, namespace="default", uid="inner", owner_references=owners, deletion_timestamp=deletion
            )
            cluster._stores[Job].put(wrapping)
            cluster.pods.put(replace(inner, metadata=metadata))
            await cluster.delete(Key("default", "master-76no-0", "Pod"), wrapping.metadata.uid)
            return server.seen

    seen = asyncio.run(run())
    sent = [(one.path.rpartition("/")[2], one.body["preconditions"]["uid"]) for one in seen]
    assert sent == [*([("master-76no-0-abcde", "inner")] if leaves else []), ("master-76no-0", "job-of-master")]
    assert all("gracePeriodSeconds" not in one.body for one in seen)
    assert seen[-1].body["propagationPolicy"] == "Foreground"
