"""A real API server that misbehaves for a while in one of many ways, and what its client asked of it meanwhile."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import aiohttp
import msgspec
from aiohttp import web

from support.faulty_door import Door, carry_out, lose_answer
from support.kube.dead_peer import deafen

CLOSED = "closed watch"
GONE_EVENT = "410 in a watch"
GONE_LIST = "410 on a list"
SILENT = "silent stall"
HALF_OPEN = "half-open connection"
BROKEN = "storm of 500"
BUSY = "storm of 429"
SLOW = "slow answers"
LOST = "lost answers"
HUGE = "huge events"
BOOKMARKS = "bookmarks only"
KINDS = (CLOSED, GONE_EVENT, GONE_LIST, SILENT, HALF_OPEN, BROKEN, BUSY, SLOW, LOST, HUGE, BOOKMARKS)

STORMS = (BROKEN, BUSY)

WITHHELD_SECONDS = 0.3
"""Between two bookmarks while nothing else comes."""
HUGE_BYTES = (1_000_000, 6_000_000)
WINDOW = 10.0
"""Seconds over which the rate of requests is taken."""

EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
REFUSALS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    GONE_LIST: (EXPIRED, {}),
    BROKEN: ({"kind": "Status", "code": 500, "reason": "InternalError", "message": "etcd is not there"}, {}),
    BUSY: ({"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "later"}, {"Retry-After": "1"}),
}
END, NEW_SPELL, QUIET = SIGNS = (b"end", b"spell", b"quiet")
"""What stands among the lines of a watch: its end, that another fault reigns, and that nothing came for a while."""


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Object(msgspec.Struct, frozen=True, rename="camel"):
    kind: str = ""
    api_version: str = ""
    metadata: _Metadata = _Metadata()


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: _Object


_events = msgspec.json.Decoder(_Event)


@dataclass(eq=False)
class _Watch:
    """One watch that passes through: how far it is, and the lines still to be looked at."""

    key: str
    request: web.Request
    response: web.StreamResponse
    version: str
    lines: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    like: _Object = field(default_factory=_Object)
    withheld: bool = False

    async def bookmark(self) -> None:
        """Tells how far in history this watch has come."""
        seen = {"apiVersion": self.like.api_version, "kind": self.like.kind}
        await self.tell("BOOKMARK", {**seen, "metadata": {"resourceVersion": self.version}})

    async def tell(self, kind: str, about: dict[str, Any]) -> None:
        """Sends an event of our own."""
        await self.response.write(msgspec.json.encode({"type": kind, "object": about}) + b"\n")


class MisbehavingServer(Door):
    """A door behind which a spell of one kind of fault may reign; what it does is drawn from `chance`.

    `asked` holds every request: when, and the path with its selectors; for a list and the watch after it they are the
    same. `injected` counts faults by kind, of silence those that met a watch; `noticed` has the seconds until a client
    left a watch that had gone dead; `bookmark_seconds` is how often a quiet watch is told how far it is, 0 for as often
    as the real server does.
    """

    def __init__(self, kubeconfig: Path, chance: random.Random, bookmark_seconds: float = 0) -> None:
        super().__init__(kubeconfig)
        self.chance = chance
        self.bookmark_seconds = bookmark_seconds or None
        self.asked: list[tuple[float, str]] = []
        self.injected: Counter[str] = Counter()
        self.noticed: list[tuple[str, str, float]] = []
        self.dead: dict[str, tuple[str, float]] = {}
        """Watches that nobody has left yet, by their key: the fault, and since when."""
        self._spell = ""
        self._watches: set[_Watch] = set()
        self._watched: set[str] = set()
        self._transports: set[asyncio.Transport] = set()
        self._answering: set[asyncio.Transport] = set()
        """Connections over which something is about to be sent."""
        self._deaf: set[asyncio.BaseTransport | None] = set()

    def begin(self, kind: str) -> None:
        """From now on this fault reigns, also over the watches that are open."""
        asyncio.run_coroutine_threadsafe(self._begin(kind), self.loop).result()

    def calm(self) -> None:
        """From now on all requests pass; watches that have gone dead stay so."""
        self.begin("")

    def peak(self) -> tuple[float, str]:
        """The highest rate of requests for one watch in any window, per second, and what it watches."""
        times: dict[str, list[float]] = {key: [] for key in self._watched}
        for when, key in self.asked:
            if key in times:
                times[key].append(when)
        return max((_most(moments) / WINDOW, key) for key, moments in times.items())

    def total_peak(self) -> float:
        """The highest rate of all requests in any window, per second."""
        return _most([when for when, _ in self.asked]) / WINDOW

    def most_asked(self, begun: float, ended: float) -> tuple[int, str]:
        """How often a watch was asked for between two moments, at most, and what it watches."""
        counts = Counter(key for when, key in self.asked if begun <= when <= ended and key in self._watched)
        return max(((count, key) for key, count in counts.items()), default=(0, ""))

    def asked_since(self, moment: float) -> list[str]:
        """What was asked after a moment."""
        return [what for when, what in self.asked if when > moment]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Passes a request on, unless the spell has it otherwise."""
        body = await request.read()
        assert isinstance(request.transport, asyncio.Transport)
        self._transports.add(request.transport)
        key = _key(request)
        self.asked.append((time.monotonic(), key))
        self._left(key)
        if request.transport in self._deaf:  # it came in the moment before
            await self._silence(HALF_OPEN, "")
        if "watch" in request.query:
            self._watched.add(key)
        self._answering.add(request.transport)
        try:
            answer = await self._instead(request, body, key)
            if answer is not None:
                return answer
            return await (self._watch(request, key) if "watch" in request.query else self.forward(request, body))
        finally:
            self._answering.discard(request.transport)

    # --- requests ---------------------------------------------------------------------------------------------------

    async def _instead(self, request: web.Request, body: bytes, key: str) -> web.StreamResponse | None:
        """What is answered in place of the real server, if anything."""
        spell, draw = self._spell, self.chance.random()
        is_write, is_watch = request.method != "GET", "watch" in request.query
        if spell == SLOW:
            self.injected[spell] += 1
            await asyncio.sleep(self.chance.uniform(0.1, 1.5))
        elif spell == SILENT and draw < 0.3:
            if is_write and draw < 0.15:
                await carry_out(self, request, body)
            await self._silence(spell, key if is_watch else "")
        elif spell == LOST and is_write and draw < 0.7:
            self.injected[spell] += 1
            return await lose_answer(self, request, body)
        elif (spell == GONE_LIST and "limit" in request.query and draw < 0.7) or (spell in STORMS and draw < 0.9):
            self.injected[spell] += 1
            status, headers = REFUSALS[spell]
            return web.json_response(status, status=status["code"], headers=headers)
        return None

    async def _silence(self, spell: str, watched: str) -> NoReturn:
        """Says nothing until the client goes."""
        if watched:
            self.injected[spell] += 1
            self.dead[watched] = spell, time.monotonic()
        try:
            await asyncio.Event().wait()
        finally:
            self._left(watched)
        raise AssertionError("nobody sets it")

    def _left(self, watched: str) -> None:
        """A client has given up a watch, or asks for it again: it knows that the one before is dead."""
        if watched in self.dead:
            spell, since = self.dead.pop(watched)
            self.noticed.append((spell, watched, time.monotonic() - since))

    # --- watches ----------------------------------------------------------------------------------------------------

    async def _begin(self, spell: str) -> None:
        self._spell = spell
        self._transports = {one for one in self._transports if not one.is_closing()}
        if spell == HALF_OPEN:
            # A watch is deafened between two of its lines, by the one who sends them. To deafen takes time, in which
            # another connection may begin to answer.
            for transport in tuple(self._transports):
                watching = {watch.request.transport for watch in self._watches}
                if transport not in self._answering | watching:
                    await self._deafen(transport)
        for watch in self._watches:
            watch.lines.put_nowait(NEW_SPELL)

    async def _deafen(self, transport: asyncio.BaseTransport | None) -> None:
        """Loses the other end of a connection."""
        if transport is not None and transport not in self._deaf:
            self._deaf.add(transport)
            await deafen(transport)

    async def _watch(self, request: web.Request, key: str) -> web.StreamResponse:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        async with self.session.get(f"{self.server}{request.path_qs}", headers=headers) as source:
            if source.status != 200:
                return web.Response(status=source.status, body=await source.read(), content_type="application/json")
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            watch = _Watch(key, request, response, request.query["resourceVersion"])
            watch.lines.put_nowait(NEW_SPELL)
            reader = asyncio.create_task(_read(source, watch))
            self._watches.add(watch)
            self._answering.discard(request.transport)
            try:
                await self._pass_on(watch)
                await response.write_eof()
            except ConnectionResetError:
                pass  # the client was quicker
            finally:
                self._watches.discard(watch)
                reader.cancel()
                await asyncio.wait((reader,))
            return response

    async def _pass_on(self, watch: _Watch) -> None:
        """Passes events on until the watch ends, of itself or by the spell."""
        while True:
            try:
                async with asyncio.timeout(WITHHELD_SECONDS if self._spell == BOOKMARKS else self.bookmark_seconds):
                    line = await watch.lines.get()
            except TimeoutError:
                line = QUIET
            if line == END or not await self._goes_on(watch, line):
                return
            if line == QUIET:
                await watch.bookmark()
            elif line == NEW_SPELL:
                continue
            elif self._spell == BOOKMARKS:
                self.injected[BOOKMARKS] += 1
                watch.withheld = True
            else:
                await self._send(watch, line)

    async def _goes_on(self, watch: _Watch, line: bytes) -> bool:
        """Does to an open watch what the spell asks for; False is its end."""
        spell = self._spell
        if spell == HALF_OPEN and self.chance.random() < 0.5:
            await self._deafen(watch.request.transport)
        if watch.request.transport in self._deaf:
            await self._silence(HALF_OPEN, watch.key)
        if spell == SILENT and self.chance.random() < 0.5:
            await self._silence(spell, watch.key)
        if spell == SLOW and line not in SIGNS:
            await asyncio.sleep(self.chance.uniform(0.05, 0.5))
        if spell in (GONE_EVENT, GONE_LIST):
            if spell == GONE_EVENT:
                self.injected[spell] += 1
            await watch.tell("ERROR", EXPIRED)
            return False
        if spell == CLOSED or (watch.withheld and (spell != BOOKMARKS or self.chance.random() < 0.5)):
            if spell == CLOSED:
                self.injected[spell] += 1
            await watch.bookmark()  # a client that counts events may think that all is well, and come at once
            return False
        return spell not in STORMS

    async def _send(self, watch: _Watch, line: bytes) -> None:
        event = _events.decode(line)
        if self._spell == HUGE and event.type != "BOOKMARK":
            self.injected[HUGE] += 1
            padding = b"x" * self.chance.randint(*HUGE_BYTES)
            line = line.replace(b'"object":{', b'"object":{"padding":"' + padding + b'",', 1)
        if event.type != "ERROR":
            watch.like, watch.version = event.object, event.object.metadata.resource_version
        await watch.response.write(line + b"\n")


async def _read(source: aiohttp.ClientResponse, watch: _Watch) -> None:
    rest = b""
    async for chunk in source.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            watch.lines.put_nowait(line)
    watch.lines.put_nowait(END)


def _key(request: web.Request) -> str:
    """What is asked for, the same for a list, its pages, and the watch that goes on from there."""
    if request.method != "GET":
        return f"{request.method} {request.path}"
    chosen = [request.query[name] for name in ("labelSelector", "fieldSelector") if name in request.query]
    return " ".join((request.path, *chosen))


def _most(times: list[float]) -> int:
    """The highest number of moments within one window."""
    first, most = 0, 0
    for last, moment in enumerate(times):
        while moment - times[first] > WINDOW:
            first += 1
        most = max(most, last - first + 1)
    return most
