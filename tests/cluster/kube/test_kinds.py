"""Kinds that the kernel does not know, in one loop with TFJobs, on a real API server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from devcluster.client import Client as Cluster
from support.room import PATIENCE, Room
from support.running import wait_until
from support.served import served
from support.toys import BatchKind, ServerKind, ToyKind
from tfjob.api.resources import PODS
from tfjob.api.types import TFJOBS
from tfjob.controller.controller import Controller
from tfjob.kube.access import config
from tfjob.kube.client.client import Client
from tfjob.kube.cluster.cluster import KubeCluster
from tfjob.kube.cluster.event_log import EventLog
from tfjob.plan.kind import TFJobKind

TEMPLATE = {"containers": [{"name": "tensorflow", "image": "x"}], "schedulerName": "none"}
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.fixture(scope="module")
def toys(control_plane: Cluster, quiet_room: Room) -> Iterator[Room]:
    """A namespace with the toys' kinds, and a loop that reconciles them together with TFJobs."""
    definitions = [definition(ServerKind()), definition(BatchKind())]
    control_plane.apply(*definitions)
    names = [one["metadata"]["name"] for one in definitions]
    # `kubectl wait` fails at once for a CRD that has no conditions yet.
    wait_until(lambda: all(served(control_plane, name) for name in names), PATIENCE)
    with loop(control_plane, quiet_room.namespace):
        yield quiet_room
    control_plane.kubectl("delete", "crd", *names)


def definition(kind: ToyKind) -> dict[str, Any]:
    resource = kind.resource
    names = {"kind": resource.kind, "plural": resource.plural, "singular": resource.kind.lower()}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": ANYTHING, "status": ANYTHING}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {"group": resource.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


@contextmanager
def loop(control_plane: Cluster, namespace: str) -> Iterator[None]:
    kinds: list[Any] = [TFJobKind(), ServerKind(), BatchKind()]
    events = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def run() -> None:
        access = config.load(None, {"KUBECONFIG": str(control_plane.kubeconfig)})
        async with Client(access) as client:
            log = EventLog(client)
            cluster = KubeCluster(client, log, kinds, namespace=namespace, watch_nodes=False)
            works = (cluster.follow(), log.run(), Controller(cluster, kinds).run())
            tasks = [asyncio.create_task(one) for one in works]
            stopped = asyncio.create_task(stop.wait())
            await asyncio.wait((*tasks, stopped), return_when=asyncio.FIRST_COMPLETED)
            failures = [one.exception() for one in tasks if one.done()]
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert not failures, failures

    thread = threading.Thread(target=events.run_until_complete, args=(run(),))
    thread.start()
    try:
        yield
    finally:
        events.call_soon_threadsafe(stop.set)
        thread.join(60)
        assert not thread.is_alive()
        events.close()


def toy(kind: ToyKind, name: str, **spec: Any) -> dict[str, Any]:
    resource = kind.resource
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "spec": {"template": TEMPLATE, **spec},
    }


def status_of(place: Room, kind: ToyKind, name: str) -> dict[str, Any]:
    return place.get(kind.resource, name).get("status") or {}


def test_a_server_keeps_one_pod_running(toys: Room) -> None:
    kind = ServerKind()
    toys.make(kind.resource, toy(kind, "model"))
    wait_until(lambda: toys.find(PODS, "model-0") is not None, PATIENCE)
    toys.runs("model-0")
    wait_until(lambda: status_of(toys, kind, "model").get("state") == "Running", PATIENCE)
    toys.ends("model-0", code=1)
    wait_until(lambda: toys.find(PODS, "model-1") is not None, PATIENCE)
    assert toys.find(PODS, "model-0") is None
    assert status_of(toys, kind, "model")["restarts"] == 1
    told = toys.until_event("model", "Restarted")
    assert told["involvedObject"]["apiVersion"] == "toys.example/v1"
    assert told["involvedObject"]["kind"] == "Server"


def test_an_invalid_owner_fails_with_the_path_of_its_fault(toys: Room) -> None:
    kind = ServerKind()
    broken = toy(kind, "broken")
    del broken["spec"]["template"]
    toys.make(kind.resource, broken)
    wait_until(lambda: status_of(toys, kind, "broken").get("message") == "spec.template", PATIENCE)


def test_a_batch_runs_tfjobs_two_at_a_time(toys: Room) -> None:
    kind = BatchKind()
    toys.make(kind.resource, toy(kind, "lr", count=3, parallel=2))
    for number, pod in enumerate(("lr-0-worker-0", "lr-1-worker-0", "lr-2-worker-0")):
        wait_until(lambda pod=pod: toys.find(PODS, pod) is not None, PATIENCE)  # type: ignore[misc]
        assert len(toys.objects(TFJOBS)) <= number + 2
        toys.runs(pod)
        toys.ends(pod)
    wait_until(lambda: status_of(toys, kind, "lr").get("state") == "Succeeded", PATIENCE)
    assert status_of(toys, kind, "lr")["message"] == "3/3"
    assert {one["metadata"]["name"] for one in toys.objects(TFJOBS)} == {"lr-0", "lr-1", "lr-2"}
