"""Addresses and ports of pods and Services by level."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tfjob.api.objects import ObjectMeta, OwnerReference, Pod, Service
from tfjob.api.types import TFJob
from tfjob.local.pod.network import LOOPBACK, Network, planned, told_port
from tfjob.local.sandbox.pod_spec import Level
from tfjob.local.state.store import Run, Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "state.db")


@pytest.fixture
def run(store: Store, tmp_path: Path) -> Run:
    job = TFJob(metadata=ObjectMeta(name="mnist", namespace="default"))
    return store.add_run(job, attached=False, boot="b", folder=lambda number: tmp_path)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which a program listens at every address."""
    with socket.create_server(("0.0.0.0", 0)) as server:
        yield server.getsockname()[1]


def service(run: Run, port: int = 2222, name: str = "mnist-worker-0") -> Service:
    owner = OwnerReference(name="mnist", uid=run.uid)
    metadata = ObjectMeta(name=name, namespace="default", owner_references=[owner])
    return Service(
        metadata=metadata, spec={"ports": [{"name": "http", "port": 80}, {"name": "tfjob-port", "port": port}]}
    )


@pytest.mark.parametrize("level", ["full", "addresses"])
def test_a_taken_port_is_replaced_and_noted(store: Store, run: Run, taken: int, level: Level) -> None:
    network = Network(store, run.uid, level)
    address = network.lease(service(run, taken))
    (peer,) = network.peers()
    assert address.startswith("127.77.")
    assert list(peer.ports) == [taken]
    (note,) = network.notes
    assert str(taken) in note
    assert f"worker-0 uses port {peer.ports[taken]}" in note
    assert network.lease(service(run, taken)) == address
    assert len(network.notes) == 1


def test_at_the_lowest_level_a_name_has_a_port_of_this_machine(store: Store, run: Run) -> None:
    network = Network(store, run.uid, "ports")
    pod = Pod(metadata=service(run).metadata, spec={"containers": [{"name": "tensorflow"}]})
    assert network.lease(pod) == LOOPBACK
    assert network.lease(service(run)) == LOOPBACK
    (peer,) = network.peers()
    assert list(peer.ports) == [2222], "other ports stay"
    assert Network(store, run.uid, "ports").peers() == [peer]


def test_every_name_of_a_run_has_its_own_address(store: Store, run: Run) -> None:
    network = Network(store, run.uid, "full")
    leased = {network.lease(service(run, name=f"mnist-worker-{index}")) for index in range(3)}
    assert len(leased) == 3
    assert [peer.name for peer in network.peers()] == [f"mnist-worker-{index}" for index in range(3)]


def test_a_dry_run_leases_nothing(store: Store, run: Run) -> None:
    services = [service(run, name=f"mnist-worker-{index}") for index in range(2)]
    assert [peer.ip for peer in planned(services, "full")] == ["127.77.0.1", "127.77.0.2"]
    assert [dict(peer.ports) for peer in planned(services, "ports")] == [{2222: 20000}, {2222: 20001}]
    assert Network(store, run.uid, "full").peers() == []


def test_a_pod_without_a_named_port_tells_none() -> None:
    assert told_port(Pod(spec={"containers": [{"name": "a", "ports": [{"containerPort": 80}]}]})) is None
    assert told_port(Pod(spec={"containers": [{"name": "a", "ports": [{"name": "tf-port", "containerPort": 9}]}]})) == 9
