"""Which pods a Service forwards to, and at which port."""

from __future__ import annotations

import asyncio
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tfjob.api.objects import SAME_PORTS, Deployment, ObjectMeta, OwnerReference, Pod, PodCondition, PodStatus, Service
from tfjob.local.pod.network import LOOPBACK, Network
from tfjob.local.run.services import Services, selects
from tfjob.local.state.store import open_store

NOW = datetime(2030, 1, 1, tzinfo=UTC)
READY = PodStatus(phase="Running", conditions=[PodCondition(type="Ready", status="True", last_transition_time=NOW)])
PORTS = [{"name": "admin", "containerPort": 9}, {"name": "http", "containerPort": 8080}]
POD = Pod(
    metadata=ObjectMeta(name="web-0", namespace="default", labels={"app": "web", "tier": "front"}),
    spec={"containers": [{"name": "proxy"}, {"name": "server", "ports": PORTS}]},
    status=READY,
)


def service(namespace: str = "default", **spec: Any) -> Service:
    return Service(metadata=ObjectMeta(name="web", namespace=namespace), spec={"selector": {"app": "web"}, **spec})


@pytest.mark.parametrize(
    ("owner", "pod", "expected"),
    [
        (service(), POD, True),
        (service(selector={"app": "web", "tier": "front"}), POD, True),
        (service(selector={"app": "other"}), POD, False),
        (service("other"), POD, False),
        (service(), replace(POD, status=PodStatus(phase="Running")), False),
        (service(publishNotReadyAddresses=True), replace(POD, status=PodStatus(phase="Running")), True),
        (service(), replace(POD, metadata=replace(POD.metadata, deletion_timestamp=NOW)), False),
    ],
)
def test_a_service_selects_ready_pods_by_their_labels(owner: Service, pod: Pod, expected: bool) -> None:
    assert selects(owner, pod) is expected


@pytest.mark.parametrize(("target", "expected"), [(80, 80), ("80", 80), ("http", 8080), ("grpc", None)])
def test_a_target_port_is_a_number_or_the_name_of_a_container_port(target: int | str, expected: int | None) -> None:
    assert POD.port(target) == expected


def test_a_service_that_cannot_listen_does_not_hold_up_the_others(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    root = Deployment(metadata=ObjectMeta(name="web", namespace="default"))
    run = store.add_run(root, attached=False, boot="b", folder=lambda number: tmp_path)
    owners = [OwnerReference(name="web", uid=run.uid)]
    network = Network(store, run.uid, "ports")
    announced: list[str] = []
    warnings: list[str] = []

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    async def read(port: int) -> bytes:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        return answer

    async def main() -> None:
        async with await asyncio.start_server(greet, LOOPBACK, 0) as server:
            behind = server.sockets[0].getsockname()[1]
            pod = replace(POD, metadata=replace(POD.metadata, uid="p", owner_references=owners))
            first, second = (
                replace(
                    service(ports=[{"port": 80, "targetPort": behind}]),
                    metadata=ObjectMeta(name=name, namespace="default", uid=name, owner_references=owners),
                )
                for name in ("first", "second")
            )
            for one in (first, second):
                network.lease(one)
            at = {one.metadata.name: network.publish(one)[80] for one in (first, second)}
            services = Services(
                network,
                lambda one, _: announced.append(one.metadata.name),
                lambda one, reason: warnings.append(f"{one.metadata.name}: {reason}"),
            )
            with socket.create_server((LOOPBACK, at["first"])):
                services.sync([first, second], [pod])
                services.sync([first, second], [pod])
            (warning,) = warnings
            assert warning.startswith("first: Address already in use")
            assert await read(at["second"]) == b"hello"
            services.sync([first, second], [])
            assert await read(at["first"]) == b"", "no pod is ready"
            services.sync([first], [pod])
            assert await read(at["first"]) == b"hello"
            with pytest.raises(ConnectionRefusedError):
                await read(at["second"])
            await services.close()
            with pytest.raises(ConnectionRefusedError):
                await read(at["first"])

    asyncio.run(main())
    store.close()
    assert announced == ["second", "first"]


def test_a_service_with_its_own_ports_waits_until_they_are_free(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    root = Deployment(metadata=ObjectMeta(name="web", namespace="default"))
    run = store.add_run(root, attached=False, boot="b", folder=lambda number: tmp_path)
    owners = [OwnerReference(name="web", uid=run.uid)]
    announced: list[str] = []
    warnings: list[str] = []

    async def main() -> None:
        with socket.create_server((LOOPBACK, 0)) as holder:
            port = holder.getsockname()[1]
            metadata = ObjectMeta(
                name="web", namespace="default", uid="w", owner_references=owners, annotations={SAME_PORTS: ""}
            )
            ports = [{"port": port, "targetPort": "http"}]
            kept = replace(service(ports=ports, publishNotReadyAddresses=True), metadata=metadata)
            pod = replace(POD, metadata=replace(POD.metadata, owner_references=owners))
            network = Network(store, run.uid, "ports")
            services = Services(
                network, lambda one, pod: announced.append(pod.metadata.name), lambda one, why: warnings.append(why)
            )
            services.sync([kept], [pod])
        assert f"port {port} " in warnings[0]
        services.sync([kept], [replace(pod, status=PodStatus(phase="Running"))])
        assert announced == [], "a pod that is not ready"
        services.sync([kept], [pod])
        _, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.close()
        await services.close()

    asyncio.run(main())
    store.close()
    assert announced == ["web-0"]
    assert len(warnings) == 1


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        ([{"port": 80, "targetPort": "http"}, {"port": 80, "targetPort": "grpc", "protocol": "UDP"}], ["web"]),
        ([{"port": 80, "targetPort": "grpc"}], []),
        ([{"port": 80, "protocol": "UDP"}], []),
        ([], []),
    ],
)
def test_a_service_is_announced_once_if_it_has_a_target(
    ports: list[dict[str, Any]], expected: list[str], tmp_path: Path
) -> None:
    store = open_store(tmp_path / "state.db")
    root = Deployment(metadata=ObjectMeta(name="web", namespace="default"))
    run = store.add_run(root, attached=False, boot="b", folder=lambda number: tmp_path)
    owners = [OwnerReference(name="web", uid=run.uid)]
    named = replace(service(ports=ports), metadata=ObjectMeta(name="web", namespace="default", owner_references=owners))
    pod = replace(POD, metadata=replace(POD.metadata, owner_references=owners))
    announced: list[str] = []

    async def main() -> None:
        services = Services(Network(store, run.uid, "ports"), lambda one, _: announced.append(one.metadata.name), print)
        for pods in ([pod], [], [pod]):
            services.sync([named], pods)
        await services.close()

    asyncio.run(main())
    store.close()
    assert announced == expected
