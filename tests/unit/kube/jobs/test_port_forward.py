"""A forwarded port, against a server that answers as a kubelet does when something is wrong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from support.kube.api_server import ApiServer
from tfjob.kube.client.client import Client
from tfjob.kube.jobs.port_forward import DATA, ERROR, HOST, PROTOCOL, PortForward
from tfjob.kube.jobs.tensorboard import NotReady

PORT = 6006
NUMBER = PORT.to_bytes(2, "little")


async def pod() -> str:
    return "web"


async def socket_of(request: web.Request) -> web.WebSocketResponse:
    """A web socket that has begun as a kubelet begins one."""
    socket = web.WebSocketResponse(protocols=[PROTOCOL])
    await socket.prepare(request)
    assert socket.ws_protocol == PROTOCOL
    for channel in (DATA, ERROR):
        await socket.send_bytes(bytes([channel]) + NUMBER)
    return socket


async def exchange(port: int, text: bytes) -> bytes:
    """What comes back until the other side is closed."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(text)
    try:
        return await asyncio.wait_for(reader.read(), 10)
    except ConnectionResetError:  # closed before it was listened to
        return b""
    finally:
        writer.close()


async def answers(server: ApiServer, find_pod: Callable[[], Awaitable[str]] = pod) -> list[bytes]:
    """Two connections through a forwarded port."""
    async with Client(server.access()) as client:
        forward = PortForward(client, "default", find_pod, PORT)
        async with await forward.listen(0) as listening:
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
            assert await answers(server) == [b"hello, you", b"again, you"]
            first = server.seen[0]
            assert (first.path, first.query) == ("/api/v1/namespaces/default/pods/web/portforward", {"ports": "6006"})
            assert "application/json" not in first.headers.get("Accept", "")

    asyncio.run(work())


def test_what_the_kubelet_says_is_told_once_and_the_connection_closed(caplog: pytest.LogCaptureFixture) -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        socket = await socket_of(request)
        await socket.send_bytes(bytes([ERROR]) + b"error forwarding port 6006: connection refused")
        await socket.receive()
        return socket

    async def work() -> None:
        async with ApiServer(otherwise=refuse) as server:
            assert await answers(server) == [b"", b""]

    with caplog.at_level(logging.WARNING, "tfjob.kube.jobs.port_forward"):
        asyncio.run(work())
    assert [record.message for record in caplog.records] == ["error forwarding port 6006: connection refused"]


def test_without_a_pod_a_connection_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    async def nowhere() -> str:
        raise NotReady("TensorBoard curves-tensorboard has no pod that is ready")

    async def work() -> None:
        async with ApiServer() as server:
            assert await answers(server, nowhere) == [b"", b""]

    with caplog.at_level(logging.WARNING, "tfjob.kube.jobs.port_forward"):
        asyncio.run(work())
    assert [record.message for record in caplog.records] == ["TensorBoard curves-tensorboard has no pod that is ready"]
