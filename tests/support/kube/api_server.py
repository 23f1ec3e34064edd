"""An API server on loopback with scripted answers: in order, delayed, rejected, or with broken connections."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import msgspec
import yaml
from aiohttp import web

from tfjob.kube.access.config import Access
from tfjob.kube.access.credentials import Credential

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class ApiServer:
    """Answers from `answers`, `lists` and `watches`; when these are empty, with `otherwise`, by default never."""

    answers: deque[Answer] = field(default_factory=deque)
    lists: deque[Answer] = field(default_factory=deque)
    watches: deque[Answer] = field(default_factory=deque)
    otherwise: Answer | None = None
    secure: ssl.SSLContext | None = None
    seen: list[Seen] = field(default_factory=list)
    port: int = 0

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def listen(self) -> None:
        """Start to listen, at the same port as before."""
        self._site = web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self.secure)
        await self._site.start()
        self.port = self._runner.addresses[-1][1]

    async def stop_listening(self) -> None:
        """Refuse connections from now on."""
        await self._site.stop()

    def access(self, credential: Credential | None = None) -> Access:
        return Access(f"http://127.0.0.1:{self.port}", credential=credential or Credential())

    def kubeconfig(self, folder: Path) -> Path:
        """Write a kubeconfig for a process; return its path."""
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}
        context = {"name": "c", "context": {"cluster": "c", "user": "c"}}
        config = {"clusters": [cluster], "contexts": [context], "users": [{"name": "c"}], "current-context": "c"}
        file = folder / "kubeconfig"
        file.write_text(yaml.safe_dump(config))
        return file

    def asked(self) -> list[str]:
        """Return a short form of each request: `GET /api/v1/pods`, `LIST`, `WATCH@5`."""
        return [self._short(seen) for seen in self.seen]

    @staticmethod
    def _short(seen: Seen) -> str:
        if seen.query.get("watch") == "1":
            return f"WATCH@{seen.query.get('resourceVersion', '')}"
        if "limit" in seen.query:
            return "LIST"
        return f"{seen.method} {seen.path}"

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.read()
        body = msgspec.json.decode(text) if text else None
        seen = Seen(request.method, request.path, dict(request.query), dict(request.headers), body)
        self.seen.append(seen)
        short = self._short(seen)
        queue = self.watches if short.startswith("WATCH") else self.lists if short == "LIST" else self.answers
        return await (queue.popleft() if queue else self.otherwise or silence)(request)


def reply(body: Any = None, code: int = 200, **headers: str) -> Answer:
    """Answer with JSON; `_` in the name of a header means `-`."""

    async def answer(_: web.Request) -> web.StreamResponse:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=code, body=msgspec.json.encode(body), headers=fields)

    return answer


def refuse(code: int, reason: str, **headers: str) -> Answer:
    return reply({"kind": "Status", "code": code, "reason": reason, "message": f"it is {reason}"}, code, **headers)


async def abort(request: web.Request) -> web.StreamResponse:
    """Break the connection."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def silence(_: web.Request) -> web.StreamResponse:
    """Never answer."""
    await asyncio.Event().wait()
    raise AssertionError


def chunks(*parts: bytes | float | Answer) -> Answer:
    """Answer with a stream: send bytes, wait for numbers of seconds, break off with `abort` or `silence`."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for part in parts:
            if isinstance(part, bytes):
                await response.write(part)
            elif isinstance(part, (int, float)):
                await asyncio.sleep(part)
            else:
                await asyncio.sleep(0.02)  # what was sent before arrives before
                return await part(request)
        return response

    return answer


def pod(name: str, version: int, *, uid: str = "", **fields: Any) -> dict[str, Any]:
    metadata = {"namespace": "team", "name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, **fields}


def pods(version: int, *items: dict[str, Any], continue_: str = "") -> dict[str, Any]:
    metadata = {"resourceVersion": str(version)} | ({"continue": continue_} if continue_ else {})
    return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": list(items)}


def event(kind: str, thing: dict[str, Any]) -> bytes:
    """Return a line of a watch."""
    return msgspec.json.encode({"type": kind, "object": thing}) + b"\n"
