"""What the operator writes into the spec of a TfJob, and what it leaves alone."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from kube.api_server import ApiServer, reply
from tfjob.api.types import TensorBoard
from tfjob.controller.cluster import InvalidJob
from tfjob.kube.cache.decode import CachedJob, decode_tf_job, job_of
from tfjob.kube.client.client import Client
from tfjob.kube.cluster.tensorflow_org import complete

TEMPLATE = {"spec": {"containers": [{"name": "tensorflow", "image": "x:1"}]}}


def running(*replicas: dict[str, Any], **spec: Any) -> CachedJob:
    """A TfJob that was edited while it ran."""
    details = {"attempt": 1, "observedGeneration": 1, "runtimeId": "76no"}
    metadata = {"name": "j", "namespace": "n", "generation": 2, "resourceVersion": "5"}
    body = {"metadata": metadata, "spec": {"replicaSpecs": list(replicas), **spec}, "status": {"details": details}}
    return decode_tf_job(msgspec.json.encode(body))


def written(cached: CachedJob) -> tuple[bool, list[Any]]:
    """Whether something was missing, and what was sent."""
    try:
        job = job_of(cached)
    except InvalidJob as invalid:
        job = invalid.job

    async def look() -> tuple[bool, list[Any]]:
        async with ApiServer(otherwise=reply({})) as server, Client(server.access()) as client:
            return await complete(client, job, cached, [], "tf:1"), [one.body for one in server.seen]

    return asyncio.run(look())


def test_a_sound_edit_gets_its_defaults_over_the_version_that_was_read() -> None:
    missing, (body,) = written(running({"template": TEMPLATE}))
    assert missing
    assert body["metadata"] == {"resourceVersion": "5"}
    assert body["spec"]["RuntimeId"] == "76no"
    (replica,) = body["spec"]["replicaSpecs"]
    assert (replica["tfReplicaType"], replica["tfPort"]) == ("MASTER", 2222)


@pytest.mark.parametrize(
    "fault", [{"tfPrt": 3}, {"replicas": -1}, {"template": {"spec": {**TEMPLATE["spec"], "hostNetwork": "yes"}}}]
)
def test_into_a_spec_that_is_not_sound_nothing_is_written(fault: dict[str, Any]) -> None:
    """What cannot be read would be lost by it."""
    assert written(running({"template": TEMPLATE, **fault})) == (False, [])


def test_what_was_applied_again_takes_the_place_of_what_was_written() -> None:
    """And leaves nothing of its own spelling, also not an empty mapping."""
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
