"""The loop with kinds that it does not know: a server with one pod, a batch of TFJobs."""

from __future__ import annotations

import asyncio
from typing import Any

from support.controller.memory_cluster import MemoryCluster
from support.plan.builders import T0
from support.toys import Batch, BatchKind, Server, ServerKind
from tfjob.api.objects import ContainerState, ContainerStatus, ContainerTerminated, ObjectMeta, PodStatus
from tfjob.api.problems import Problem
from tfjob.controller.actions import RemoveFinalizer
from tfjob.controller.controller import Controller
from tfjob.controller.kind import Invalid, Key, Plan
from tfjob.plan.kind import TFJobKind

CONTAINERS = {"containers": [{"name": "tensorflow", "image": "x:1"}]}
ENDED = ContainerTerminated(exit_code=0, started_at=T0, finished_at=T0)
SUCCEEDED = PodStatus(
    phase="Succeeded",
    container_statuses=[ContainerStatus(name="tensorflow", state=ContainerState(terminated=ENDED))],
)


def toy(kind: Any, name: str, **spec: Any) -> Any:
    metadata = ObjectMeta(name=name, namespace="default", uid=f"uid-of-{name}", finalizers=["toys.example/data"])
    return kind(kind=kind.__name__, metadata=metadata, spec={"template": CONTAINERS, **spec})


def settle(controller: Controller, cluster: MemoryCluster) -> None:
    for _ in range(6):
        for key in list(cluster.owners):
            asyncio.run(controller.reconcile(key))


def test_a_server_keeps_one_pod_running() -> None:
    cluster = MemoryCluster()
    key = Key("default", "model", "Server")
    cluster.put(toy(Server, "model"))
    controller = Controller(cluster, [ServerKind()], clock=lambda: T0)
    settle(controller, cluster)
    assert cluster.pods() == ["model-0"]
    cluster.set_pod("model-0", PodStatus(phase="Running"))
    settle(controller, cluster)
    assert cluster.owners[key].status.state == "Running"
    cluster.set_pod("model-0", PodStatus(phase="Failed"))
    settle(controller, cluster)
    assert (cluster.pods(), cluster.owners[key].status.restarts) == (["model-1"], 1)
    assert "Restarted" in [event.reason for event in cluster.events]


def test_an_owner_that_is_not_valid_is_rejected_by_its_kind() -> None:
    cluster = MemoryCluster()
    key = Key("default", "model", "Server")
    owner = cluster.put(toy(Server, "model"))

    async def broken(key: Key) -> Any:
        raise Invalid(owner, [Problem("spec.template", "is missing")])

    cluster.owner = broken  # type: ignore[method-assign]
    asyncio.run(Controller(cluster, [ServerKind()], clock=lambda: T0).reconcile(key))
    status = cluster.owners[key].status
    assert (status.state, status.reason, status.message) == ("Failed", "InvalidSpec", "spec.template")


def test_a_batch_runs_its_jobs_in_the_same_loop() -> None:
    cluster = MemoryCluster()
    cluster.put(toy(Batch, "lr", count=3, parallel=2))
    controller = Controller(cluster, [TFJobKind(), BatchKind()], clock=lambda: T0)
    settle(controller, cluster)
    assert cluster.pods() == ["lr-0-worker-0", "lr-1-worker-0"]
    for name in ("lr-0-worker-0", "lr-1-worker-0", "lr-2-worker-0"):
        cluster.set_pod(name, SUCCEEDED)
        settle(controller, cluster)
    status = cluster.owners[Key("default", "lr", "Batch")].status
    assert (status.state, status.message) == ("Succeeded", "3/3")


def test_a_plan_can_remove_a_finalizer_of_its_owner() -> None:
    class Releasing(ServerKind):
        def plan(self, owner: Any, observed: Any, now: Any) -> Plan[Any]:
            return Plan(owner.status, [RemoveFinalizer("toys.example/data")])

    cluster = MemoryCluster()
    key = Key("default", "model", "Server")
    cluster.put(toy(Server, "model"))
    asyncio.run(Controller(cluster, [Releasing()], clock=lambda: T0).reconcile(key))
    assert cluster.owners[key].metadata.finalizers == []
