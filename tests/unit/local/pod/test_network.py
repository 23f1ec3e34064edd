"""Addresses and ports of pods and Services by level."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tfjob.api.objects import SAME_PORTS, ObjectMeta, OwnerReference, Pod, Service
from tfjob.api.types import TFJob
from tfjob.local.pod.network import (
    LOOPBACK,
    Network,
    Peer,
    hosts_file,
    is_forwarded,
    planned,
    published,
    rewrite_own_ports,
    taken_host_port,
    told_ports,
    with_address,
)
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


def test_the_note_names_the_pod_of_a_deployment_in_full(store: Store, run: Run, taken: int) -> None:
    network = Network(store, run.uid, "full")
    owner = OwnerReference(kind="Deployment", name="web", uid=run.uid)
    metadata = ObjectMeta(name="web-cf27d893-0", namespace="default", owner_references=[owner])
    container = {"name": "web", "args": [f"--port={taken}"], "ports": [{"containerPort": taken}]}
    network.lease(Pod(metadata=metadata, spec={"containers": [container]}))
    (note,) = network.notes
    assert ": web-cf27d893-0 uses port " in note


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


def pod(run: Run, command: list[str], name: str = "web-1-0", **container: object) -> Pod:
    given = {"name": "a", "command": command, "ports": [{"name": "http", "containerPort": 8080}], **container}
    return Pod(metadata=service(run, name=name).metadata, spec={"containers": [given]})


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"ports": [{"containerPort": 80}]}, []),
        ({"ports": [{"name": "tf-port", "containerPort": 9}]}, [9]),
        ({"ports": [{"containerPort": 80}], "command": ["serve", "80"]}, [80]),
        ({"ports": [{"containerPort": 80}], "args": ["--port=80"]}, [80]),
        ({"ports": [{"containerPort": 80}], "args": ["--bind", "0.0.0.0:80"]}, [80]),
        ({"ports": [{"containerPort": 80}], "command": ["sh", "-c", "serve --port 80 --log x"]}, [80]),
        ({"ports": [{"containerPort": 80}], "env": [{"name": "PORT", "value": "80"}]}, [80]),
        ({"ports": [{"containerPort": 80}], "args": ["--peer=other:80", "--size=8080", "1.80"]}, []),
        ({"ports": [{"name": "tfjob-port", "containerPort": 9}], "args": ["--steps", "9"]}, [9]),
    ],
)
def test_ports_are_told_by_name_or_in_the_command(container: dict[str, object], expected: list[int]) -> None:
    assert told_ports(Pod(spec={"containers": [{"name": "a", **container}]})) == expected


def test_a_pod_is_told_the_port_that_it_has_in_place_of_its_own(store: Store, run: Run) -> None:
    network = Network(store, run.uid, "ports")
    pods = [pod(run, ["serve", "--port", "8080", "--at=0.0.0.0:8080"], name) for name in ("web-1-0", "web-1-1")]
    for one in pods:
        network.lease(one)
    ports = [network.at(one, 8080) for one in pods]
    assert len(set(ports)) == 2
    (host, number), _ = ports
    assert host == LOOPBACK
    rewritten = [rewrite_own_ports(word, pods[0], {8080: number}) for word in ("8080", "--at=0.0.0.0:8080", "x:8080")]
    assert rewritten == [str(number), f"--at=0.0.0.0:{number}", "x:8080"]
    network.release(pods[0])
    assert [peer.name for peer in network.peers()] == ["web-1-1"]
    assert [peer.name for peer in Network(store, run.uid, "ports").peers()] == ["web-1-1"]


def web(run: Run, **spec: object) -> Service:
    given = {"selector": {"app": "web"}, "ports": [{"port": 8000, "targetPort": 80}, {"port": 8001}], **spec}
    return Service(metadata=service(run, name="web").metadata, spec=given)


@pytest.mark.parametrize("level", ["full", "addresses", "ports"])
def test_a_forwarded_service_has_an_address_and_ports_for_browsers(store: Store, run: Run, level: Level) -> None:
    network = Network(store, run.uid, level)
    address = network.lease(web(run))
    outside = network.publish(web(run))
    assert list(outside) == [8000, 8001]
    assert published(store, web(run)) == outside == Network(store, run.uid, level).publish(web(run))
    (peer,) = network.peers()
    assert peer == Network(store, run.uid, level).peers()[0]
    if level == "ports":
        assert network.at(web(run), 8000) == (LOOPBACK, outside[8000])
    else:
        assert network.at(web(run), 8000) == (address, 8000)
        assert address.startswith("127.77.")
    changed = web(run, ports=[{"port": 8001}, {"port": 8002}])
    network.lease(changed)
    assert list(network.publish(changed)) == [8001, 8002], "a port that the Service no longer has is not published"
    assert network.publish(changed)[8001] == outside[8001]


@pytest.mark.parametrize("level", ["full", "addresses", "ports"])
def test_a_service_may_keep_its_ports_at_the_loopback_address(store: Store, run: Run, taken: int, level: Level) -> None:
    given = web(run, ports=[{"port": taken}])
    kept = replace(given, metadata=replace(given.metadata, annotations={SAME_PORTS: ""}))
    assert published(store, kept) == Network(store, run.uid, level).publish(kept) == {taken: taken}
    assert store.connection.execute("select * from ports").fetchall() == []
    found = taken_host_port(kept)
    assert found is not None
    assert found[0] == taken
    assert f"process {os.getpid()}" in found[1]
    assert taken_host_port(given) is None


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, True),
        ({"clusterIP": "None"}, False),
        ({"selector": {}}, False),
        ({"type": "ExternalName"}, False),
        ({"type": "NodePort"}, True),
        ({"ports": [{"name": "tf-port", "port": 2222}]}, False),
    ],
)
def test_a_service_with_a_selector_is_forwarded_unless_it_names_one_replica(
    run: Run, spec: dict[str, object], expected: bool
) -> None:
    assert is_forwarded(web(run, **spec)) is expected


def test_a_hosts_file_follows_the_names_of_a_tree(store: Store, run: Run, tmp_path: Path) -> None:
    network, file = Network(store, run.uid, "full"), tmp_path / "hosts"
    network.lease(pod(run, ["serve"]))
    network.write_hosts(file)
    before = file.stat().st_ino
    network.lease(web(run))
    network.release(pod(run, ["serve"]))
    network.write_hosts(file)
    assert "web.default.svc" in file.read_text()
    assert "web-1-0" not in file.read_text()
    assert file.stat().st_ino == before, "pods have it mounted"


def test_a_headless_service_listens_at_the_ports_of_its_pods() -> None:
    ports = [{"name": "http", "containerPort": 8080}, {"containerPort": 53, "protocol": "UDP"}, {"containerPort": 9}]
    pod = Pod(spec={"containers": [{"name": "a", "ports": ports}]})
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}
    headless = with_address(Service(spec={**spec, "clusterIP": "None"}), [pod])
    assert headless.spec == {"selector": {"app": "web"}, "ports": [{"port": 8080}, {"port": 9}]}
    assert with_address(Service(spec=spec), [pod]).spec == spec


def test_the_hosts_file_keeps_the_hosts_and_adds_every_name_of_a_replica() -> None:
    kept = "127.0.0.1\tlocalhost\n::1 localhost ip6-localhost # six\n\n"
    base = f"{kept}10.0.0.9 mnist-chief-0 files\n10.0.0.8 mnist-chief-0\n"
    peers = [Peer("mnist-chief-0", "team", "127.77.0.1"), Peer("other-chief-0", "else", "127.77.0.2")]
    assert hosts_file(peers, base) == (
        f"{kept}10.0.0.9\tfiles\n"
        "127.77.0.1\tmnist-chief-0.team.svc mnist-chief-0.team.svc.cluster.local mnist-chief-0.team mnist-chief-0\n"
        "127.77.0.2\tother-chief-0.else.svc other-chief-0.else.svc.cluster.local other-chief-0.else\n"
    )
