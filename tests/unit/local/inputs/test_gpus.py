"""The GPUs of this machine: how they are found, counted and shared out. None is needed for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from support.golden import Wording
from tfjob.api.objects import ObjectMeta, OwnerReference, Pod
from tfjob.api.types import PARALLELISM, ReplicaSpec, TFJob, TFJobSpec
from tfjob.local.inputs import gpus
from tfjob.local.state.store import Store, open_store

NEW, OLD = gpus.RESOURCES


def machine(folder: Path, *, driver: int = 0, devices: tuple[str, ...] = (), listed: str = "") -> dict[str, str]:
    """A folder that looks like a machine with GPUs; returns the environment of who looks."""
    for number in range(driver):
        (folder / f"proc/driver/nvidia/gpus/0000:0{number}:00.0").mkdir(parents=True)
    (folder / "dev").mkdir()
    for name in devices:
        (folder / "dev" / name).touch()
    tools = folder / "bin"
    tools.mkdir()
    if listed:
        (tools / "nvidia-smi").write_text(f"#!/bin/sh\n{listed}\n")
        (tools / "nvidia-smi").chmod(0o755)
    return {"PATH": f"{tools}:/usr/bin:/bin"}


@pytest.mark.parametrize(
    ("there", "count"),
    [
        ({}, 0),
        ({"driver": 2, "devices": ("nvidia0",)}, 2),
        ({"devices": ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-modeset")}, 2),
        ({"listed": "echo 'GPU 0: A (UUID: GPU-1)'; echo '  MIG 1g'; echo 'GPU 1: A (UUID: GPU-2)'"}, 2),
        ({"listed": "echo 'GPU 0: A'; exit 9"}, 0),
    ],
    ids=["none", "the driver's folder", "device files", "nvidia-smi", "nvidia-smi without a driver"],
)
def test_gpus_are_found_where_the_driver_shows_them(tmp_path: Path, there: dict[str, Any], count: int) -> None:
    environ = machine(tmp_path, **there)
    assert gpus.found(environ, tmp_path) == tuple(str(number) for number in range(count))


@pytest.mark.parametrize(
    ("visible", "usable"),
    [("1,3", ("1", "3")), ("GPU-1, 0", ("GPU-1", "0")), ("0,-1,2", ("0",)), ("0,9,1", ("0",)), ("", ()), ("-1", ())],
)
def test_what_the_caller_may_not_see_is_not_given_out(tmp_path: Path, visible: str, usable: tuple[str, ...]) -> None:
    environ = {**machine(tmp_path, driver=4), gpus.VISIBLE: visible}
    assert gpus.found(environ, tmp_path) == usable


def test_a_variable_alone_makes_no_gpu(tmp_path: Path) -> None:
    assert gpus.found({**machine(tmp_path), gpus.VISIBLE: "GPU-1"}, tmp_path) == ()


def asking(amount: Any, name: str = "tensorflow", group: str = "limits", resource: str = NEW) -> dict[str, Any]:
    return {"name": name, "resources": {group: {resource: amount}}}


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        ({}, 0),
        ({"containers": [{"name": "a"}]}, 0),
        ({"containers": [asking(2)]}, 2),
        ({"containers": [asking("1", group="requests", resource=OLD)]}, 1),
        ({"containers": [{"resources": {"limits": {NEW: 2, OLD: 1}, "requests": {NEW: 2}}}]}, 2),
        ({"containers": [asking(1, "a"), asking(2, "b")]}, 3),
        ({"initContainers": [asking(3, "first")], "containers": [asking(1)]}, 3),
        ({"containers": [asking("many")]}, 0),
    ],
)
def test_a_pod_needs_what_its_containers_ask_for(spec: dict[str, Any], needed: int) -> None:
    assert gpus.asked_by_pod(spec) == needed


def test_a_job_needs_what_runs_at_once() -> None:
    replica = ReplicaSpec(replicas=5, template={"spec": {"containers": [asking(2)]}})
    whole = TFJob(spec=TFJobSpec(tf_replica_specs={"Worker": replica, "PS": ReplicaSpec(replicas=2)}))
    assert gpus.asked_by_job(whole) == 10
    of_a_batch = TFJob(metadata=ObjectMeta(annotations={PARALLELISM: "1"}), spec=whole.spec)
    assert gpus.asked_by_job(of_a_batch) == 2


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "state.db")


def pod(store: Store, job: str, *containers: dict[str, Any]) -> Pod:
    """A stored pod of a job of its own."""
    return pods(store, job, 1, *containers)[0]


def pods(store: Store, job: str, count: int, *containers: dict[str, Any]) -> list[Pod]:
    """The stored workers of a job."""
    run = store.add_run(
        TFJob(metadata=ObjectMeta(name=job, namespace="default")), attached=False, boot="b", folder=lambda _: Path("/")
    )
    owner = OwnerReference(uid=run.uid)
    return [
        store.create_child(
            Pod(
                metadata=ObjectMeta(name=f"{job}-worker-{index}", namespace="default", owner_references=[owner]),
                spec={"containers": list(containers)},
            )
        )
        for index in range(count)
    ]


def held(found: Pod) -> str | None:
    return found.metadata.annotations.get(gpus.HELD)


def test_pods_of_all_jobs_get_gpus_of_their_own_and_wait_when_none_is_free(store: Store, wording: Wording) -> None:
    machine = ("0", "1", "2")
    first, second, third = (pod(store, name, asking(count)) for name, count in (("a", 2), ("b", 2), ("c", 1)))
    server = pod(store, "d", {"name": "tensorflow"})
    first = gpus.hold(store, first, machine, lambda one: True)
    assert held(first) == "0,1"
    assert held(gpus.hold(store, first, machine, lambda one: True)) == "0,1"
    assert held(gpus.hold(store, second, machine, lambda one: True)) is None
    (condition,) = gpus.waiting(second, [second], machine).conditions
    assert condition.reason == "Unschedulable"
    wording(condition.message)
    assert held(gpus.hold(store, third, machine, lambda one: True)) == "2"
    assert held(gpus.hold(store, server, machine, lambda one: True)) == ""
    over = first.metadata.uid
    assert held(gpus.hold(store, second, machine, lambda one: one.metadata.uid != over)) == "0,1"


def test_a_job_takes_the_gpus_of_all_its_waiting_replicas_or_none(store: Store, wording: Wording) -> None:
    """Whatever the order in which the replicas of two jobs that need them all are looked at."""
    machine = ("0", "1")
    first, second = pods(store, "a", 2, asking(1)), pods(store, "b", 2, asking(1))
    assert held(gpus.hold(store, first[0], machine, lambda one: True)) == "0"
    assert held(gpus.hold(store, second[0], machine, lambda one: True)) is None
    assert held(gpus.hold(store, first[1], machine, lambda one: True)) == "1"
    (condition,) = gpus.waiting(second[1], second, machine).conditions
    assert condition.reason == "Unschedulable"
    wording(condition.message)

    over = first[0].metadata.uid
    assert held(gpus.hold(store, second[1], machine, lambda one: one.metadata.uid != over)) is None, "one is not enough"
    again = store.create_child(replace(first[0], metadata=replace(first[0].metadata, name="a-worker-2", uid="")))
    assert held(gpus.hold(store, again, machine, lambda one: one.metadata.uid != over)) == "0", "its job has the rest"
    ours = second[0].metadata.owner_references
    mine = [gpus.hold(store, one, machine, lambda one: one.metadata.owner_references == ours) for one in second]
    assert [held(one) for one in mine] == ["0", "1"]


@pytest.mark.parametrize(
    ("annotations", "seen"),
    [
        ({}, [{}, {}, {}]),
        ({gpus.HELD: ""}, [{gpus.VISIBLE: "-1"}, {gpus.VISIBLE: "-1"}, {gpus.VISIBLE: "-1"}]),
        ({gpus.HELD: "4,5,6"}, [{gpus.VISIBLE: "4,5"}, {gpus.VISIBLE: "6"}, {gpus.VISIBLE: "4"}]),
    ],
    ids=["a job that asks for none", "a parameter server", "shares"],
)
def test_each_container_sees_its_share_and_others_none(annotations: dict[str, str], seen: list[Any]) -> None:
    containers, first = [asking(2, "a"), asking(1, "b")], asking(1, "first")
    spec = {"initContainers": [first], "containers": containers}
    held_by = Pod(metadata=ObjectMeta(annotations=annotations), spec=spec)
    assert [gpus.variables(held_by, one) for one in (*containers, first)] == seen
