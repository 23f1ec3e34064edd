"""HTTP as we speak it: answers in any pieces, connections that are kept, shared, broken and tunnelled."""

from __future__ import annotations

import asyncio
import base64
import gzip
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import uvloop
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from dead_peer import deafen
from kube.api_server import ApiServer, chunks, reply
from kube.kube_files import Authority
from kube.test_kube_tls import secured
from tfjob.kube import http_connection, http_pool
from tfjob.kube.client import Client
from tfjob.kube.config import Access
from tfjob.kube.errors import Unreachable
from tfjob.kube.http_answer import HEAD_LIMIT, Answer
from tfjob.kube.http_connection import Broken
from tfjob.kube.http_pool import Pool
from tfjob.kube.tls import Trust

SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y: z\r\n\r\nhello"
OPEN_ENDED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nyes\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;ext=1\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"
ANSWERS = [
    (SIZED, 200, b"hello", True),
    (CHUNKED, 200, b"hello", True),
    (b"HTTP/1.1 100 Continue\r\n\r\n" + SIZED, 200, b"hello", True),
    (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
    (b"HTTP/1.1 404 Not Found\r\ncontent-length:0\r\n\r\n", 404, b"", True),
    (b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 1\r\n\r\nx", 200, b"x", False),
    (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, b"x", False),
    (SIZED + b"more", 200, b"hello", False),
]


def fed(*pieces: bytes) -> Answer:
    answer = Answer()
    for piece in pieces:
        if not answer.complete:
            answer.feed(piece)
    return answer


@pytest.mark.parametrize(("data", "status", "body", "keep_alive"), ANSWERS)
def test_an_answer_that_arrives_at_once(data: bytes, status: int, body: bytes, keep_alive: bool) -> None:
    answer = fed(data)
    assert (answer.complete, answer.status, answer.body(), answer.keep_alive) == (True, status, body, keep_alive)


@given(answer=st.sampled_from(ANSWERS[:-1]), cuts=st.sets(st.integers(0, 120)))
def test_an_answer_that_arrives_in_any_pieces(answer: tuple[bytes, int, bytes, bool], cuts: set[int]) -> None:
    data, status, body, keep_alive = answer
    bounds = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    got = fed(*(data[start:end] for start, end in pairwise(bounds)))
    assert (got.complete, got.status, got.body(), got.keep_alive) == (True, status, body, keep_alive)


def test_headers_are_found_whatever_their_case() -> None:
    assert fed(SIZED).headers == {"content-length": "5", "x": "y: z"}


def test_without_a_length_the_end_of_the_connection_is_the_end_of_the_answer() -> None:
    answer = fed(b"HTTP/1.1 200 OK\r\n\r\n", b"one", b"two")
    assert not answer.complete
    assert answer.end()
    assert (answer.body(), answer.keep_alive) == (b"onetwo", False)


@pytest.mark.parametrize("data", [SIZED, CHUNKED])
def test_an_answer_that_breaks_off_is_no_answer(data: bytes) -> None:
    for end in range(len(data)):
        assert not fed(data[:end]).end()


def test_a_compressed_answer_is_uncompressed() -> None:
    body = gzip.compress(b"hello" * 1000)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    assert fed(head + body).body() == b"hello" * 1000
    with pytest.raises(ValueError, match="not compressed as it says"):
        fed(head + bytes(len(body))).body()


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * HEAD_LIMIT,
    ],
)
def test_what_is_no_http_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        fed(data)


def pooled(test: Callable[[ApiServer, Pool], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        async with ApiServer() as server:
            pool = Pool(f"http://127.0.0.1:{server.port}", None, **settings)
            try:
                await asyncio.wait_for(test(server, pool), timeout=20)
            finally:
                await pool.close()

    asyncio.run(run())


def message(method: str = "GET", path: str = "/") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode()


async def hang_up(request: web.Request) -> web.StreamResponse:
    """The request meets a connection that closes under it."""
    assert request.transport is not None
    request.transport.close()
    return web.Response()


def test_a_kept_connection_that_the_server_closed_is_replaced_without_a_word() -> None:
    async def test(server: ApiServer, pool: Pool) -> None:
        server.answers += [reply("first"), hang_up, reply("second")]
        assert (await pool.exchange(message(), 5, repeatable=True)).body() == b'"first"'
        assert (await pool.exchange(message(), 5, repeatable=True)).body() == b'"second"'

    pooled(test)


def test_what_must_not_be_repeated_is_not() -> None:
    async def test(server: ApiServer, pool: Pool) -> None:
        server.answers += [reply("first"), hang_up, reply("second")]
        await pool.exchange(message("POST"), 5, repeatable=False)
        with pytest.raises(Broken):
            await pool.exchange(message("POST"), 5, repeatable=False)
        assert len(server.seen) == 2

    pooled(test)


def test_only_so_many_requests_are_under_way_at_once() -> None:
    async def test(server: ApiServer, pool: Pool) -> None:
        now, most = 0, 0

        async def slow(request: web.Request) -> web.StreamResponse:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.02)
            now -= 1
            return await reply({})(request)

        server.otherwise = slow
        await asyncio.gather(*(pool.exchange(message(), 5, repeatable=True) for _ in range(20)))
        assert most == 3

    pooled(test, limit=3)


def test_a_request_that_was_given_up_does_not_leave_its_answer_to_the_next() -> None:
    async def test(server: ApiServer, pool: Pool) -> None:
        async def late(request: web.Request) -> web.StreamResponse:
            await asyncio.sleep(0.2)
            return await reply("late")(request)

        server.answers += [reply("first"), late, reply("second")]
        await pool.exchange(message(), 5, repeatable=True)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await pool.exchange(message(), 5, repeatable=True)
        assert (await pool.exchange(message(), 5, repeatable=True)).body() == b'"second"'

    pooled(test)


def test_a_request_without_an_answer_ends_in_time() -> None:
    async def test(server: ApiServer, pool: Pool) -> None:
        with pytest.raises(TimeoutError):
            await pool.exchange(message(), 0.1, repeatable=True)

    pooled(test)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_what_could_not_be_delivered_is_never_delivered_once_a_connection_is_given_up(run: Callable[..., None]) -> None:
    """The server is away, so the kernel keeps a request; when the server is back, nobody stands for it any more."""

    async def test(server: socket.socket) -> None:
        pool = Pool(f"http://127.0.0.1:{server.getsockname()[1]}", None)
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


def test_a_stream_that_was_read_to_its_end_leaves_its_connection_to_others() -> None:
    async def test(server: ApiServer, pool: Pool) -> None:
        ports = set()
        parts: list[bytes | float] = [b"one", b"two"]

        async def answer(request: web.Request) -> web.StreamResponse:
            assert request.transport is not None
            ports.add(request.transport.get_extra_info("peername"))
            return await chunks(*parts)(request)

        server.otherwise = answer
        for _ in range(3):
            async with pool.stream(message(), 5) as (_, connection):
                assert b"".join([chunk async for chunk in connection.chunks(5)]) == b"onetwo"
        assert len(ports) == 1
        parts.insert(1, 5.0)
        for _ in range(2):
            async with pool.stream(message(), 5):
                pass
        assert len(ports) == 2

    pooled(test)


def test_a_stream_that_nobody_reads_makes_the_server_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "BUFFER_LIMIT", 100_000)

    async def test(server: ApiServer, pool: Pool) -> None:
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
        async with pool.stream(message(), 5) as (_, connection):
            await asyncio.sleep(0.5)
            assert sent < total / 2
            received = 0
            async for chunk in connection.chunks(5):
                received += len(chunk)
            assert received == total

    pooled(test)


def test_a_path_that_would_be_another_request_is_not_sent() -> None:
    async def run() -> None:
        async with Client(Access("http://127.0.0.1:1")) as client:
            for path in ("/a b", "/a\r\nX: y", "/é"):
                with pytest.raises(ValueError, match="has to be quoted"):
                    await client.request("GET", path)

    asyncio.run(run())


class Proxy:
    """An HTTP proxy that opens tunnels, for those whom it knows if it asks."""

    def __init__(self, password: str = "") -> None:
        self.targets: list[str] = []
        self._password = password
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.targets.append(head.split()[1])
        wanted = base64.b64encode(f"user:{self._password}".encode()).decode()
        if self._password and f"Proxy-Authorization: Basic {wanted}" not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 4\r\n\r\nno!\n")
            writer.close()
            return
        host, _, port = self.targets[-1].rpartition(":")
        there_reader, there_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        for source, target in ((reader, there_writer), (there_reader, writer)):
            task = asyncio.create_task(self._copy(source, target))
            self._tasks.add(task)

    @staticmethod
    async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
        except OSError:
            pass
        finally:
            writer.close()


@pytest.mark.parametrize("secure", [False, True])
def test_requests_go_through_a_proxy(tmp_path: Path, secure: bool) -> None:
    async def run() -> None:
        authority = Authority(tmp_path)
        server = secured(authority, "127.0.0.1") if secure else ApiServer(otherwise=reply({"user": ""}))
        async with server, Proxy("a b") as proxy:
            access = replace(
                server.access(), proxy=f"http://user:a%20b@127.0.0.1:{proxy.port}", trust=Trust(authority=authority.pem)
            )
            if secure:
                access = replace(access, server=access.server.replace("http:", "https:"))
            async with Client(access) as client:
                assert await client.request("GET", "/") == b'{"user":""}'
                assert await client.request("POST", "/", body={}) == b'{"user":""}'
            assert proxy.targets == [f"127.0.0.1:{server.port}"]

    asyncio.run(run())


def test_a_proxy_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfjob.kube.client.FIRST_DELAY", 0.0)

    async def run() -> None:
        async with ApiServer() as server, Proxy("secret") as proxy:
            access = replace(server.access(), proxy=f"http://127.0.0.1:{proxy.port}")
            async with Client(access) as client:
                with pytest.raises(Unreachable, match=r"the proxy 127\.0\.0\.1 answered 407"):
                    await client.request("GET", "/")

    asyncio.run(run())


@pytest.mark.faults
@pytest.mark.parametrize("after", [b"", SIZED], ids=["a stream", "a kept connection"])
def test_a_server_that_lost_its_power_is_noticed_soon(monkeypatch: pytest.MonkeyPatch, after: bytes) -> None:
    """A log that is quiet has no end of its own, and the next request on a connection need not wait for its limit."""
    monkeypatch.setattr(http_pool, "DEAD_SECONDS", 2)
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
        async with Client(Access(server=f"http://127.0.0.1:{port}")) as client:
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
            assert time.monotonic() - began < 10
        for writer in accepted:
            writer.transport.abort()
        server.close()

    asyncio.run(run())


@pytest.mark.faults
@pytest.mark.parametrize("first", ["a stream", "a request"])
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_when_a_server_lost_its_power_no_request_goes_over_what_was_open_to_it(
    monkeypatch: pytest.MonkeyPatch, first: str, run: Callable[..., None]
) -> None:
    """What the kernel gave up last was given up late: a request over another connection would wait as long again."""
    monkeypatch.setattr(http_pool, "DEAD_SECONDS", 2)

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
            async with Client(Access(server=f"http://127.0.0.1:{port}")) as client:
                if first == "a stream":
                    stream = client.stream("/log")
                    assert await anext(stream) == b"yes"
                else:
                    assert await client.request("GET", "/") == b"hello"
                losing = asyncio.create_task(lost(client))
                await asyncio.sleep(1.5)  # so that the kernel has not given these up when it gives up the first one
                assert await asyncio.gather(*(client.request("GET", "/") for _ in range(2))) == [b"hello"] * 2
                await losing
                has_power = True
                # It may not be repeated, so it would fail over any of the old ones.
                assert await client.request("POST", "/next") == b"hello"
                assert len(accepted) == 4
        finally:
            for writer in accepted:
                writer.transport.abort()
            server.close()

    run(test())
