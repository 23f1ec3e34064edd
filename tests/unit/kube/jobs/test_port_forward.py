"""Port-forwarding, against a server that reports errors as a kubelet does."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial

import pytest
from aiohttp import web

from support.kube.api_server import ApiServer, reply
from tfjob.api.objects import Deployment, ObjectMeta, Pod, PodCondition, PodStatus
from tfjob.jobs.backend import NotFound, Record
from tfjob.jobs.port_forward import LOCALHOST, Forward, PortPair, Target
from tfjob.kube.client.client import Client
from tfjob.kube.jobs.port_forward import DATA, ERROR, PROTOCOL, KubePlace, connect

PORT = 6006
NUMBER = PORT.to_bytes(2, "little")


POD = Pod(
    metadata=ObjectMeta(name="web", namespace="default", uid="1"),
    status=PodStatus(phase="Running", conditions=[PodCondition(type="Ready", status="True")]),
)


async def socket_of(request: web.Request) -> web.WebSocketResponse:
    """Open a web socket with the first messages of a kubelet."""
    socket = web.WebSocketResponse(protocols=[PROTOCOL])
    await socket.prepare(request)
    assert socket.ws_protocol == PROTOCOL
    for channel in (DATA, ERROR):
        await socket.send_bytes(bytes([channel]) + NUMBER)
    return socket


async def exchange(port: int, text: bytes) -> bytes:
    """Return everything that is received until the other side closes."""
    reader, writer = await asyncio.open_connection(LOCALHOST, port)
    writer.write(text)
    try:
        return await asyncio.wait_for(reader.read(), 60)
    except ConnectionResetError:  # closed before it was listened to
        return b""
    finally:
        writer.close()


async def answers(server: ApiServer, warnings: list[str], *pods: Pod) -> list[bytes]:
    """Open two connections through a forwarded port."""

    async def find() -> list[Pod]:
        return list(pods)

    async with Client(server.access()) as client:
        forward = Forward(partial(connect, client), Target("service web", find), warnings.append)
        async with await forward.listen(LOCALHOST, PortPair(0, str(PORT))) as listening:
            ((host, number),) = [one.getsockname() for one in listening.sockets]
            assert host == "127.0.0.1"  # no other machine comes there
            return [await exchange(number, b"hello"), await exchange(number, b"again")]


@pytest.mark.faults
def test_both_directions_until_the_pod_closes() -> None:
    async def echo(request: web.Request) -> web.StreamResponse:
        socket = await socket_of(request)
        message = await socket.receive_bytes()
        await socket.send_bytes(message + b", you")
        await socket.close()
        return socket

    async def work() -> None:
        async with ApiServer(otherwise=echo) as server:
            assert await answers(server, [], POD) == [b"hello, you", b"again, you"]
            first = server.seen[0]
            assert (first.path, first.query) == ("/api/v1/namespaces/default/pods/web/portforward", {"ports": "6006"})
            assert "application/json" not in first.headers.get("Accept", "")

    asyncio.run(work())


def test_an_error_of_the_kubelet_is_reported_once() -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        socket = await socket_of(request)
        await socket.send_bytes(bytes([ERROR]) + b"error forwarding port 6006: connection refused")
        await socket.receive()
        return socket

    async def work() -> list[str]:
        warnings: list[str] = []
        async with ApiServer(otherwise=refuse) as server:
            assert await answers(server, warnings, POD) == [b"", b""]
        return warnings

    assert asyncio.run(work()) == ["error forwarding port 6006: connection refused"]


def test_without_a_pod_a_connection_is_closed() -> None:
    async def work() -> list[str]:
        warnings: list[str] = []
        async with ApiServer() as server:
            assert await answers(server, warnings) == [b"", b""]
        return warnings

    (warning,) = asyncio.run(work())
    assert "web" in warning


def test_pods_of_a_deployment_obey_its_expressions_too() -> None:
    rules = [{"key": "tier", "operator": "NotIn", "values": ["canary"]}]
    owner = Deployment(spec={"selector": {"matchLabels": {"app": "web"}, "matchExpressions": rules}})
    pods = [{"metadata": {"name": tier, "labels": {"app": "web", "tier": tier}}} for tier in ("canary", "front")]

    async def no_job(name: str) -> Record:
        raise NotFound(name)

    async def work() -> list[str]:
        async with ApiServer(lists=deque([reply({"items": pods})])) as server, Client(server.access()) as client:
            found = await KubePlace(client, "default", no_job).pods_of(owner)
            assert server.seen[0].query["labelSelector"] == "app=web"
            return [pod.metadata.name for pod in found]

    assert asyncio.run(work()) == ["front"]
