"""A door to a real API server that sometimes answers instead of it, or keeps its answers to itself."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import aiohttp
import yaml
from aiohttp import web

from support.kube.dead_peer import deafen, drop_what_comes, take_what_comes
from support.last_callers import forget_last_callers
from tfjob.kube.access import config, tls

Fault = Callable[["Door", web.Request, bytes], Awaitable[web.StreamResponse | None]]
"""Answers a write in place of the API server; None lets it pass."""
AnyDoor = TypeVar("AnyDoor", bound="Door")
HOP_BY_HOP = ("Connection", "Content-Length", "Host", "Transfer-Encoding")


@dataclass
class Door:
    """What went through, and what happens to each write the first time that it comes."""

    kubeconfig: Path
    fault: Fault | None = None
    shut: bool = False
    seen: list[tuple[float, str]] = field(default_factory=list)
    """Every write: when, and `METHOD PATH`; that of a creation ends in the name of what is made."""
    turned_away: int = 0
    """How many requests came while it was shut."""
    _passes: asyncio.Event = field(default_factory=asyncio.Event)
    """Set unless everything vanishes."""
    _met: set[str] = field(default_factory=set)
    _open: dict[int, web.Request] = field(default_factory=dict)

    def times(self, what: str) -> list[float]:
        """When a write came."""
        return [when for when, one in self.seen if one == what]

    def close(self) -> None:
        """Breaks every connection and takes no other."""
        self.shut = True
        self.loop.call_soon_threadsafe(self._abort_all)

    def vanish(self) -> None:
        """Is a black hole from now on: nothing arrives, nothing is sent, and nobody is told, not even by the kernel."""
        asyncio.run_coroutine_threadsafe(self._vanish(), self.loop).result()

    def reopen(self) -> None:
        """Lets everything pass again; what a kernel still tries to deliver arrives."""
        self.shut = False
        asyncio.run_coroutine_threadsafe(self._reappear(), self.loop).result()

    def undelivered(self) -> int:
        """Connections of callers whose kernel may still deliver something, also for a process that has ended."""
        found = 0
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            _, _, remote, _, queues = line.split()[:5]
            found += int(remote.rpartition(":")[2], 16) == self.port and int(queues.partition(":")[0], 16) > 0
        return found

    async def _vanish(self) -> None:
        self._passes.clear()
        drop_what_comes(self.listener)
        for transport in self._connections():
            await deafen(transport)

    async def _reappear(self) -> None:
        if self._passes.is_set():
            return
        take_what_comes(self.listener)
        for transport in self._connections():
            take_what_comes(transport.get_extra_info("socket"))
        self._passes.set()

    def _connections(self) -> list[asyncio.Transport]:
        assert self.runner.server is not None
        connected = (one.transport for one in self.runner.server.connections)
        return [one for one in connected if isinstance(one, asyncio.Transport) and not one.is_closing()]

    def _abort_all(self) -> None:
        for request in list(self._open.values()):
            abort(request)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.shut:
            self.turned_away += 1
            abort(request)
            return web.Response()
        body = await request.read()
        if not self._passes.is_set():  # it came in the moment before; to let it pass later would be a delivery of ours
            await self._passes.wait()
            abort(request)
            return web.Response()
        if request.method != "GET":
            what = f"{request.method} {request.path}{name_in(body) if request.method == 'POST' else ''}"
            self.seen.append((time.monotonic(), what))
            if self.fault is not None and what not in self._met:
                self._met.add(what)
                answer = await self.fault(self, request, body)
                if answer is not None:
                    return answer
        self._open[id(request)] = request
        try:
            return await self.forward(request, body)
        finally:
            del self._open[id(request)]

    async def forward(self, request: web.Request, body: bytes) -> web.StreamResponse:
        """Lets a request pass, and its answer as it comes."""
        headers = {name: value for name, value in request.headers.items() if name not in HOP_BY_HOP}
        url = f"{self.server}{request.path_qs}"
        async with self.session.request(request.method, url, headers=headers, data=body or None) as answer:
            passed = {name: value for name, value in answer.headers.items() if name not in HOP_BY_HOP}
            response = web.StreamResponse(status=answer.status, headers=passed)
            await self._passes.wait()
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await self._passes.wait()
                await response.write(chunk)
            await self._passes.wait()
            await response.write_eof()
            return response

    async def serve(self, real: Path, begun: threading.Event, ended: asyncio.Event) -> None:
        """Stands before the API server of a kubeconfig."""
        access = config.load(environ={"KUBECONFIG": str(real)})
        self.loop, self.server = asyncio.get_running_loop(), access.server
        secure = tls.context(access.trust, access.credential.certificate())
        connector = aiohttp.TCPConnector(ssl=secure, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as self.session:
            app = web.Application(client_max_size=2**24)
            app.router.add_route("*", "/{path:.*}", self.handle)
            self.runner = runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
            await runner.setup()
            self.listener = socket.create_server(("127.0.0.1", 0))
            await web.SockSite(runner, self.listener).start()
            self._passes.set()
            self.port = self.listener.getsockname()[1]
            cluster = {"server": f"http://127.0.0.1:{self.port}"}
            self.kubeconfig.write_text(yaml.safe_dump(_kubeconfig(cluster)))
            begun.set()
            await ended.wait()
            assert runner.server is not None
            transports = [connection.transport for connection in runner.server.connections]
            await runner.cleanup()
            for transport in transports:
                if transport is not None:
                    transport.abort()  # one that is only closed waits until its reader has taken all
        await asyncio.sleep(0.25)  # until connections with TLS are closed too, as aiohttp's documents advise


async def lose_answer(door: Door, request: web.Request, body: bytes) -> web.StreamResponse:
    """A write is carried out, and nobody is told."""
    await carry_out(door, request, body)
    abort(request)
    return web.Response()


async def carry_out(door: Door, request: web.Request, body: bytes) -> None:
    """Has a write done and keeps the answer."""
    headers = {"Content-Type": request.content_type}
    url = f"{door.server}{request.path_qs}"
    async with door.session.request(request.method, url, data=body or None, headers=headers) as answer:
        await answer.read()


def abort(request: web.Request) -> None:
    """Breaks a connection."""
    if request.transport is not None:
        request.transport.abort()


def name_in(body: bytes) -> str:
    """The name of the object that a creation makes."""
    found = yaml.safe_load(body)
    return f"/{found['metadata'].get('name', '')}"


@contextmanager
def faulty_door(real: Path, folder: Path, fault: Fault | None = None) -> Iterator[Door]:
    """A door in a thread of its own; its `kubeconfig` leads through it."""
    with standing(Door(folder / "door.kubeconfig", fault), real) as door:
        yield door


@contextmanager
def standing(door: AnyDoor, real: Path) -> Iterator[AnyDoor]:
    """The same with a door that is given."""
    begun, ended = threading.Event(), asyncio.Event()
    thread = threading.Thread(target=lambda: asyncio.run(door.serve(real, begun, ended)))
    thread.start()
    try:
        assert begun.wait(60)
        yield door
    finally:
        door.loop.call_soon_threadsafe(ended.set)
        thread.join()
        forget_last_callers()


def _kubeconfig(cluster: dict[str, str]) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "door", "cluster": cluster}],
        "users": [{"name": "door", "user": {}}],
        "contexts": [{"name": "door", "context": {"cluster": "door", "user": "door"}}],
        "current-context": "door",
    }
