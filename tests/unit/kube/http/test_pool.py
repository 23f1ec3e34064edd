"""Connections: reused, limited, broken, and to a server that lost power."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
import uvloop
from aiohttp import web

from support.async_tests import async_test
from support.kube.answers import SIZED
from support.kube.api_server import ApiServer, chunks, reply
from support.kube.dead_peer import deafen
from tfjob.durations import Durations
from tfjob.kube.access.config import Access
from tfjob.kube.access.errors import Unreachable
from tfjob.kube.client.client import Client
from tfjob.kube.http import connection as http_connection
from tfjob.kube.http.connection import Broken
from tfjob.kube.http.pool import Pool

OPEN_ENDED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nyes\r\n"


@asynccontextmanager
async def pooled(**settings: Any) -> AsyncIterator[tuple[ApiServer, Pool]]:
    async with ApiServer() as server:
        pool = Pool(server.access(), None, **settings)
        try:
            yield server, pool
        finally:
            await pool.close()


def message(method: str = "GET", path: str = "/") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode()


async def hang_up(request: web.Request) -> web.StreamResponse:
    """Close the connection instead of answering."""
    assert request.transport is not None
    request.transport.close()
    return web.Response()


@async_test(pooled)
async def test_an_idle_connection_that_was_closed_is_replaced(server: ApiServer, pool: Pool) -> None:
    server.answers += [reply("first"), hang_up, reply("second")]
    assert (await pool.exchange(message(), 60, repeatable=True)).body() == b'"first"'
    assert (await pool.exchange(message(), 60, repeatable=True)).body() == b'"second"'


@async_test(pooled)
async def test_a_request_that_is_not_repeatable_is_sent_once(server: ApiServer, pool: Pool) -> None:
    server.answers += [reply("first"), hang_up, reply("second")]
    await pool.exchange(message("POST"), 60, repeatable=False)
    with pytest.raises(Broken):
        await pool.exchange(message("POST"), 60, repeatable=False)
    assert len(server.seen) == 2


@async_test(pooled, limit=3)
async def test_the_number_of_concurrent_requests_is_limited(server: ApiServer, pool: Pool) -> None:
    now, most, full = 0, 0, asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        nonlocal now, most
        now += 1
        most = max(most, now)
        if now == 3:
            full.set()
        await full.wait()
        await asyncio.sleep(0.02)
        now -= 1
        return await reply({})(request)

    server.otherwise = slow
    await asyncio.gather(*(pool.exchange(message(), 60, repeatable=True) for _ in range(20)))
    assert most == 3


@async_test(pooled)
async def test_a_late_answer_does_not_reach_the_next_request(server: ApiServer, pool: Pool) -> None:
    arrived, given_up = asyncio.Event(), asyncio.Event()

    async def late(request: web.Request) -> web.StreamResponse:
        arrived.set()
        await given_up.wait()
        return await reply("late")(request)

    server.answers += [reply("first"), late, reply("second")]
    await pool.exchange(message(), 60, repeatable=True)
    abandoned = asyncio.create_task(pool.exchange(message(), 60, repeatable=True))
    await arrived.wait()
    abandoned.cancel()
    await asyncio.wait([abandoned])
    given_up.set()
    assert (await pool.exchange(message(), 60, repeatable=True)).body() == b'"second"'


@async_test(pooled)
async def test_a_request_without_an_answer_ends_in_time(server: ApiServer, pool: Pool) -> None:
    with pytest.raises(TimeoutError):
        await pool.exchange(message(), 0.1, repeatable=True)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_an_abandoned_request_is_never_delivered_later(run: Callable[..., None]) -> None:
    """The kernel holds a request for a server that does not read; it must drop the request with the connection."""

    async def test(server: socket.socket) -> None:
        pool = Pool(Access(f"http://127.0.0.1:{server.getsockname()[1]}"), None)
        with pytest.raises(TimeoutError):
            await pool.exchange(message("POST") + b"x" * 10_000_000, 0.2, repeatable=False)
        await pool.close()

    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        server.bind(("127.0.0.1", 0))
        server.listen()
        run(test(server))
        with server.accept()[0] as back, pytest.raises(ConnectionResetError):
            list(iter(lambda: back.recv(65536), b""))


@async_test(pooled)
async def test_a_finished_stream_returns_its_connection(server: ApiServer, pool: Pool) -> None:
    ports = set()
    parts: list[bytes | float] = [b"one", b"two"]

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername"))
        return await chunks(*parts)(request)

    server.otherwise = answer
    for _ in range(3):
        async with pool.stream(message(), 60) as (_, connection):
            assert b"".join([chunk async for chunk in connection.chunks(60)]) == b"onetwo"
    assert len(ports) == 1
    parts.insert(1, 5.0)
    for _ in range(2):
        async with pool.stream(message(), 60):
            pass
    assert len(ports) == 2


@async_test(pooled)
async def test_an_unread_stream_makes_the_server_wait(
    server: ApiServer, pool: Pool, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "BUFFER_LIMIT", 100_000)
    sent = 0
    total = 50_000_000

    async def pour(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while sent < total:
            await response.write(b"x" * 100_000)
            sent += 100_000
        return response

    server.answers.append(pour)
    async with pool.stream(message(), 60) as (_, connection):
        await asyncio.sleep(0.5)
        assert sent < total / 2
        received = 0
        async for chunk in connection.chunks(60):
            received += len(chunk)
        assert received == total


def test_a_path_that_would_inject_a_request_is_rejected() -> None:
    async def run() -> None:
        async with Client(Access("http://127.0.0.1:1")) as client:
            for path in ("/a b", "/a\r\nX: y", "/é"):
                with pytest.raises(ValueError, match="quoted"):
                    await client.request("GET", path)

    asyncio.run(run())


@pytest.mark.faults
@pytest.mark.parametrize("after", [b"", SIZED], ids=["a stream", "a kept connection"])
def test_a_server_without_power_is_noticed_soon(after: bytes) -> None:
    """A quiet log has no timeout, and the next request on a dead connection must not wait for its own."""
    head = after or OPEN_ENDED

    async def run() -> None:
        accepted: list[asyncio.StreamWriter] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.append(writer)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head)
            await writer.drain()
            await deafen(writer.transport)
            await asyncio.sleep(60)

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        durations = Durations(dead_connection=timedelta(seconds=2))
        async with Client(Access(server=f"http://127.0.0.1:{port}"), durations=durations) as client:
            if after:
                assert await client.request("GET", "/first") == b"hello"
                await asyncio.sleep(0.2)
                began = time.monotonic()
                with pytest.raises(Unreachable, match="timed out"):
                    await client.request("POST", "/second")
            else:
                stream = client.stream("/log")
                assert await anext(stream) == b"yes"
                began = time.monotonic()
                with pytest.raises(Unreachable, match="timed out"):
                    await anext(stream)
            assert time.monotonic() - began < 30
        for writer in accepted:
            writer.transport.abort()
        server.close()

    asyncio.run(run())


@pytest.mark.faults
@pytest.mark.parametrize("first", ["a stream", "a request"])
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_no_request_uses_an_old_connection_to_a_server_without_power(first: str, run: Callable[..., None]) -> None:
    """A request over another old connection would have to time out again."""

    async def test() -> None:
        accepted: list[asyncio.StreamWriter] = []
        has_power = False

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.append(writer)
            while path := (await reader.readuntil(b"\r\n\r\n")).split()[1]:
                writer.write(OPEN_ENDED if path == b"/log" else SIZED)
                await writer.drain()
                if not has_power:
                    await deafen(writer.transport)
                    await asyncio.sleep(60)

        async def lost(client: Client) -> None:
            with pytest.raises(Unreachable, match="timed out"):
                await (anext(stream) if first == "a stream" else client.request("POST", "/lost"))

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            durations = Durations(dead_connection=timedelta(seconds=5))
            async with Client(Access(server=f"http://127.0.0.1:{port}"), durations=durations) as client:
                if first == "a stream":
                    stream = client.stream("/log")
                    assert await anext(stream) == b"yes"
                else:
                    assert await client.request("GET", "/") == b"hello"
                losing = asyncio.create_task(lost(client))
                await asyncio.sleep(1.5)  # the kernel must not give up these connections together with the first one
                assert await asyncio.gather(*(client.request("GET", "/") for _ in range(2))) == [b"hello"] * 2
                await losing
                has_power = True
                # It is not repeatable, so it would fail over any old connection.
                assert await client.request("POST", "/next") == b"hello"
                assert len(accepted) == 4
        finally:
            for writer in accepted:
                writer.transport.abort()
            server.close()

    run(test())
