"""Requests to a Kubernetes API server: one session, typed answers, and retries where they are safe.

    async with Client(config.load()) as client:
        pod = await client.get(PODS, "default", "mnist-chief-0")
        jobs = await client.list(TFJOBS, type=TFJob)
        await client.create(PODS, "default", pod)

The client waits out 429 and 5xx with Retry-After, retries reads without an answer, and fetches credentials again after
401. Other errors are raised as `tfjob.kube.access.errors`; the caller knows what is safe to repeat.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar
from urllib.parse import urlencode

import msgspec

from tfjob.api.resources import Resource
from tfjob.api.text.shallow import decoded
from tfjob.durations import USUAL, Durations
from tfjob.kube.access.config import Access
from tfjob.kube.access.errors import ApiError, Gone, KubeError, NotFound, Unauthorized, api_error
from tfjob.kube.http.answer import Answer
from tfjob.kube.http.connection import Connection
from tfjob.kube.http.session import Params, Session, Shown

if TYPE_CHECKING:
    import aiohttp

logger = logging.getLogger(__name__)

T = TypeVar("T")
Converted = TypeVar("Converted")
PatchKind = Literal["merge", "json", "apply"]

CONNECTIONS = 100
PAGE_SIZE = 500
FIELD_MANAGER = "tfjob"
CHANNELS = ("v5.channel.k8s.io", "v4.channel.k8s.io")

READ_TRIES = 4
WAIT_TRIES = 10
"""How often a request waits as the API server asks before it fails."""

_PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
_encode = msgspec.json.Encoder().encode


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The version of a list, and the token of its next page."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A list, or a part of it."""

    metadata: ListMeta = ListMeta()
    items: list[T] = []


class Client:
    """An API server as one identity.

    `before_write()` is called before each attempt of a write and may raise to prevent it. `observe(method, code,
    seconds)` is called after each attempt, with code 0 if there was no answer.
    """

    def __init__(self, access: Access, connections: int = CONNECTIONS, durations: Durations = USUAL) -> None:
        self.access = access
        self.durations = durations
        self.before_write: Callable[[], None] | None = None
        self.observe: Callable[[str, int, float], None] | None = None
        self._session = Session(access, connections, durations)

    async def __aenter__(self) -> Self:
        await self._session.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def get(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        answer = await self.request("GET", resource.object_path(namespace, name))
        found: dict[str, Any] = decoded(_decoder(dict), answer)
        return found

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        type: type[T],  # noqa: A002
    ) -> Page[T]:
        """Return all objects of one namespace or of all. Items have no kind: the API server omits it."""
        params = selectors(label_selector, field_selector)
        return await self.collect(resource, namespace, params, type, lambda item: item)

    async def collect(
        self,
        resource: Resource,
        namespace: str,
        params: Mapping[str, str],
        type: type[T],  # noqa: A002
        convert: Callable[[T], Converted],
    ) -> Page[Converted]:
        """Return all objects, each converted before the next page is read."""
        items: list[Converted] = []
        continue_, size = "", PAGE_SIZE
        while True:
            try:
                page = await self.page(resource, namespace, params, continue_, size=size, type=type)
            except Gone:
                if not continue_:
                    raise
                # The token expired between two pages: read the whole list at once.
                items, continue_, size = [], "", 0
                continue
            items += map(convert, page.items)
            continue_ = page.metadata.continue_
            if not continue_:
                return Page(page.metadata, items)

    async def page(
        self,
        resource: Resource,
        namespace: str = "",
        params: Mapping[str, str] | None = None,
        continue_: str = "",
        *,
        size: int = PAGE_SIZE,
        type: type[T],  # noqa: A002
    ) -> Page[T]:
        """Return the page of a list after `continue_`. Raises Gone if that token is too old."""
        query = dict(params or {})
        if size:
            query["limit"] = str(size)
        if continue_:
            query["continue"] = continue_
        answer = await self.request("GET", resource.path(namespace), query)
        page: Page[T] = decoded(_decoder(Page[type]), answer)  # type: ignore[valid-type]
        return page

    async def create(self, resource: Resource, namespace: str, body: Any, params: Params = ()) -> bytes:
        return await self.request("POST", resource.path(namespace), params, body)

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Any,
        kind: PatchKind = "merge",
        subresource: str = "",
        params: Params = (),
    ) -> bytes:
        """Change a part of an object; `apply` is server-side apply, as `tfjob` unless params name another manager."""
        if kind == "apply":
            params = {"fieldManager": FIELD_MANAGER, **dict(params)}
        path = resource.object_path(namespace, name, subresource)
        return await self.request("PATCH", path, params, body, _PATCHES[kind])

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        uid: str = "",
        propagation: Literal["", "Background", "Foreground"] = "",
    ) -> bytes:
        """Delete an object. With a uid, raises Conflict if another object has its name."""
        options: dict[str, Any] = {}
        if uid:
            options["preconditions"] = {"uid": uid}
        if propagation:
            options["propagationPolicy"] = propagation
        return await self.request("DELETE", resource.object_path(namespace, name), (), options or None)

    async def serves(self, resource: Resource) -> bool:
        try:
            found = msgspec.json.decode(await self.request("GET", resource.root))
        except NotFound:
            return False
        return any(one.get("name") == resource.plural for one in found.get("resources", ()))

    async def request(
        self,
        method: str,
        path: str,
        params: Params = (),
        body: Any = None,
        content_type: str = "",
        *,
        fenced: bool = True,
    ) -> bytes:
        """Return the answer; `body` is bytes or anything msgspec encodes. `fenced=False` skips `before_write`."""
        target = self._session.target(path, params)
        data = b"" if body is None else body if isinstance(body, bytes) else _encode(body)
        if data:
            more = f"Content-Type: {content_type or 'application/json'}\r\nContent-Length: {len(data)}\r\n"
        else:
            more = self._session.compression if method == "GET" else "Content-Length: 0\r\n"
        fence = self.before_write if fenced and method != "GET" else None
        tries = 0
        while True:
            if self._session.is_stale:
                await self._session.authorize()
            shown = self._session.shown
            answer = await self._attempt(method, target, more, data, fence)
            if isinstance(answer, bytes):
                return answer
            tries += 1
            await self._wait_or_raise(answer, method, tries, shown)

    async def stream(self, path: str, params: Params = ()) -> AsyncGenerator[bytes, None]:
        """Yield the data of a path as it arrives, such as the log of a pod. Close the generator to stop."""
        tries = 0
        while True:
            shown = self._session.shown
            try:
                async with self.opened(path, params) as chunks:
                    async for chunk in chunks:
                        yield chunk
                return
            except KubeError as error:
                tries += 1
                await self._wait_or_raise(error, "GET", tries, shown)
            except OSError as error:
                raise self._session.unreachable(error) from None

    @asynccontextmanager
    async def opened(
        self, path: str, params: Params = (), idle: float | None = None
    ) -> AsyncIterator[AsyncGenerator[bytes, None]]:
        """Open a streaming answer, in one attempt; yield its chunks.

        Raises ApiError or Unreachable on entry. Reading raises ConnectionError if the answer breaks off, and
        TimeoutError if nothing arrives for `idle` seconds.
        """
        target = self._session.target(path, params)
        async with AsyncExitStack() as stack:
            await self._session.authorize()
            shown = self._session.shown
            answer, connection = await self._begun(target, idle, stack)
            if answer.status == 401 and await self._session.renewed(shown):
                answer, connection = await self._begun(target, idle, stack)
            if answer.status != 200:
                raise await _refusal(answer, connection, self.durations.error_body)
            chunks = connection.chunks(idle)
            stack.push_async_callback(chunks.aclose)
            yield chunks

    @asynccontextmanager
    async def websocket(
        self, path: str, params: Params = (), protocols: Sequence[str] = CHANNELS
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Open a connection in both directions, for exec and port-forward."""
        import aiohttp  # its import takes a quarter of a second
        from yarl import URL

        await self._session.authorize()
        lines = (line.partition(": ") for line in self._session.head.splitlines())
        # A kubelet does not forward a port for a client that accepts only JSON.
        headers = [(name, value) for name, _, value in lines if name != "Accept"]
        connector = aiohttp.TCPConnector(ssl=self._session.context or False)
        async with aiohttp.ClientSession(connector=connector) as session:
            try:
                opened = await session.ws_connect(
                    URL(f"{self.access.server}{path}?{urlencode(params)}", encoded=True),
                    headers=headers,
                    protocols=protocols,
                    max_msg_size=0,
                    heartbeat=30,
                    proxy=self.access.proxy or None,
                    server_hostname=self.access.trust.server_name or None,
                )
            except aiohttp.WSServerHandshakeError as error:
                # The handshake error has no body; a plain request fails for the same reason, with a message.
                await self.request("GET", path, params)
                raise api_error(error.status, error.message.encode()) from None
            except (aiohttp.ClientError, OSError) as error:
                raise self._session.unreachable(error) from None
            async with opened:
                yield opened

    async def _attempt(
        self, method: str, target: str, more: str, data: bytes, fence: Callable[[], None] | None
    ) -> bytes | KubeError:
        started = time.perf_counter()
        message = f"{method} {target} HTTP/1.1\r\n{self._session.head}{more}\r\n".encode() + data
        try:
            answer = await self._session.pool.exchange(
                message, self.durations.request.total_seconds(), repeatable=method == "GET", fence=fence
            )
            body = answer.body()
        except (OSError, ValueError) as error:
            self._observed(method, 0, started)
            return self._session.unreachable(error)
        self._observed(method, answer.status, started)
        logger.debug("%s %s: %d", method, target, answer.status)
        if 200 <= answer.status < 300:
            return body
        return api_error(answer.status, body, answer.headers.get("retry-after", ""))

    async def _begun(self, target: str, idle: float | None, stack: AsyncExitStack) -> tuple[Answer, Connection]:
        started = time.perf_counter()
        message = f"GET {target} HTTP/1.1\r\n{self._session.head}\r\n".encode()
        try:
            answer, connection = await stack.enter_async_context(self._session.pool.stream(message, idle))
        except OSError as error:
            self._observed("GET", 0, started)
            raise self._session.unreachable(error) from None
        self._observed("GET", answer.status, started)
        return answer, connection

    async def _wait_or_raise(self, error: KubeError, method: str, tries: int, shown: Shown) -> None:
        """Wait until the request can be repeated; raise the error if it cannot."""
        if isinstance(error, Unauthorized) and tries == 1 and await self._session.renewed(shown):
            return
        code = error.code if isinstance(error, ApiError) else 0
        asked = error.retry_after if isinstance(error, ApiError) else 0.0
        if asked and (code == 429 or code >= 500):
            if tries < WAIT_TRIES and asked <= self.durations.longest_retry_after.total_seconds():
                await asyncio.sleep(asked)
                return
        elif method == "GET" and (code == 0 or code >= 500) and tries < READ_TRIES:
            delay = self.durations.read_retry.total_seconds() * 2 ** (tries - 1)
            await asyncio.sleep(delay * random.uniform(0.5, 1))  # noqa: S311 (no secret)
            return
        raise error

    def _observed(self, method: str, code: int, started: float) -> None:
        if self.observe is not None:
            self.observe(method, code, time.perf_counter() - started)


def selectors(label_selector: str = "", field_selector: str = "") -> dict[str, str]:
    both = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in both.items() if value}


@functools.cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


async def _refusal(answer: Answer, connection: Connection, patience: timedelta) -> ApiError:
    try:
        body = b"".join([chunk async for chunk in connection.chunks(patience.total_seconds())])
    except OSError:
        body = b""
    return api_error(answer.status, body, answer.headers.get("retry-after", ""))
