"""Requests to a Kubernetes API server: one session, typed answers, patience where patience is right.

    async with Client(config.load()) as client:
        pod = await client.get(PODS, "default", "mnist-chief-0", type=Pod)
        jobs = await client.list(TFJOBS, type=TFJob)
        await client.create(PODS, "default", pod)

429 and 5xx with Retry-After are waited out; reads are tried again when there is no answer; 401 fetches the credentials
again. All else is raised as an error of `tfjob.kube.errors`; what is safe to repeat is the caller's knowledge.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, Literal, Self, TypeVar, overload
from urllib.parse import urlencode

import aiohttp
import msgspec
from multidict import CIMultiDict
from yarl import URL

from tfjob import __version__
from tfjob.kube import tls
from tfjob.kube.config import Access
from tfjob.kube.errors import ApiError, Gone, KubeError, Unauthorized, Unreachable, api_error
from tfjob.kube.resources import Resource

T = TypeVar("T")
Params = Mapping[str, str] | Sequence[tuple[str, str]]
PatchKind = Literal["merge", "json", "strategic", "apply"]

CONNECTIONS = 100
PAGE_SIZE = 500
READ_BUFFER = 2 * 1024 * 1024
FIELD_MANAGER = "tfjob"
CHANNELS = ("v5.channel.k8s.io", "v4.channel.k8s.io")

REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=60, sock_connect=10)
"""An API server gives up after a minute itself."""
KEEP_ALIVE_SECONDS = 75
"""An API server closes a connection after 90 idle seconds; a request must not meet that."""

READ_TRIES, FIRST_DELAY = 4, 0.1
WAIT_TRIES, LONGEST_WAIT = 10, 30.0
"""How often, and how long at a time, we wait as the API server asks; beyond that the caller decides."""

_PATCHES = {
    "merge": {"Content-Type": "application/merge-patch+json"},
    "json": {"Content-Type": "application/json-patch+json"},
    "strategic": {"Content-Type": "application/strategic-merge-patch+json"},
    "apply": {"Content-Type": "application/apply-patch+yaml"},
}
_encode = msgspec.json.Encoder().encode
_NO_ANSWER = (aiohttp.ClientError, OSError, TimeoutError)


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """Where in history a list was taken, and where it goes on."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A part of a list."""

    metadata: ListMeta = ListMeta()
    items: list[T] = []


@dataclass(frozen=True)
class Listing(Generic[T]):
    """All objects of a list at one point in history."""

    items: list[T]
    resource_version: str


class Client:
    """An API server as one identity; `before_write` may raise to stop a write, `observe` sees each answer.

    `before_write()` is called before each attempt of a write; `observe(method, code, seconds)` after each attempt of
    anything, with code 0 when there was no answer.
    """

    def __init__(self, access: Access, connections: int = CONNECTIONS) -> None:
        self.access = access
        self.before_write: Callable[[], None] | None = None
        self.observe: Callable[[str, int, float], None] | None = None
        self._connections = connections
        self._credential = access.credential
        self._authorization = ""
        self._certificate: tls.Certificate | None = None
        self._session: aiohttp.ClientSession = None  # type: ignore[assignment]
        self._left: list[aiohttp.ClientSession] = []

    async def __aenter__(self) -> Self:
        if self._credential.header() is None:
            await self._credential.renew()
        self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        for session in (self._session, *self._left):
            await session.close()

    @overload
    async def get(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]: ...
    @overload
    async def get(self, resource: Resource, namespace: str, name: str, *, type: type[T]) -> T: ...
    async def get(self, resource: Resource, namespace: str, name: str, *, type: Any = dict) -> Any:  # noqa: A002
        """One object; NotFound is raised when there is none."""
        return _decoder(type).decode(await self.request("GET", resource.object_path(namespace, name)))

    @overload
    async def list(
        self, resource: Resource, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> Listing[dict[str, Any]]: ...
    @overload
    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        type: type[T],
    ) -> Listing[T]: ...
    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        type: Any = dict,  # noqa: A002
    ) -> Listing[Any]:
        """All objects, of one namespace or of all, read in pages. Items name no kind: the API server leaves it out."""
        params = selectors(label_selector, field_selector)
        page = await self.page(resource, namespace, params, type=type)
        items = page.items
        while page.metadata.continue_:
            try:
                page = await self.page(resource, namespace, params, page.metadata.continue_, type=type)
            except Gone:
                # History moved on between two pages: what was read is of no point in it.
                page = await self.page(resource, namespace, params, size=0, type=type)
                items = []
            items += page.items
        return Listing(items, page.metadata.resource_version)

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
        """A page of a list, the one after `continue_`; Gone is raised when that is too old."""
        query = dict(params or {})
        if size:
            query["limit"] = str(size)
        if continue_:
            query["continue"] = continue_
        page: Page[T] = _decoder(Page[type]).decode(await self.request("GET", resource.path(namespace), query))  # type: ignore[valid-type]
        return page

    async def create(self, resource: Resource, namespace: str, body: Any, params: Params = ()) -> bytes:
        """Makes an object; AlreadyExists is raised when there is one of that name."""
        return await self.request("POST", resource.path(namespace), params, body)

    async def update(
        self, resource: Resource, namespace: str, name: str, body: Any, subresource: str = "", params: Params = ()
    ) -> bytes:
        """Replaces an object; Conflict is raised when its resourceVersion is not the one in `body`."""
        return await self.request("PUT", resource.object_path(namespace, name, subresource), params, body)

    async def update_status(
        self, resource: Resource, namespace: str, name: str, body: Any, params: Params = ()
    ) -> bytes:
        """Replaces the status of an object; Conflict as for `update`."""
        return await self.update(resource, namespace, name, body, "status", params)

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
        """Changes a part of an object; `apply` is server-side apply, as `tfjob` unless params say otherwise."""
        if kind == "apply":
            params = {"fieldManager": FIELD_MANAGER, **dict(params)}
        path = resource.object_path(namespace, name, subresource)
        return await self.request("PATCH", path, params, body, _PATCHES[kind]["Content-Type"])

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        uid: str = "",
        propagation: Literal["", "Background", "Foreground", "Orphan"] = "",
        grace_seconds: int | None = None,
    ) -> bytes:
        """Removes an object; with a uid only that very one, and Conflict is raised when another has its name."""
        options: dict[str, Any] = {}
        if uid:
            options["preconditions"] = {"uid": uid}
        if propagation:
            options["propagationPolicy"] = propagation
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        return await self.request("DELETE", resource.object_path(namespace, name), (), options or None)

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
        """Any request, and its answer; `body` is bytes or what msgspec encodes. `fenced=False` skips `before_write`."""
        url = self._url(path, params)
        data = body if body is None or isinstance(body, bytes) else _encode(body)
        headers = {"Content-Type": content_type} if content_type else None
        tries = 0
        while True:
            if fenced and self.before_write is not None and method != "GET":
                self.before_write()
            answer = await self._attempt(method, url, data, headers)
            if isinstance(answer, bytes):
                return answer
            tries += 1
            await self._bear(answer, method, tries)

    async def stream(self, path: str, params: Params = ()) -> AsyncIterator[bytes]:
        """What a path sends as it comes, for as long as it comes: the log of a pod. Close it to stop."""
        tries = 0
        while True:
            try:
                async with self.opened(path, params) as response:
                    async for chunk in response.content.iter_any():
                        yield chunk
                return
            except KubeError as error:
                tries += 1
                await self._bear(error, "GET", tries)
            except _NO_ANSWER as error:
                raise self._unreachable(error) from None

    @asynccontextmanager
    async def opened(
        self, path: str, params: Params = (), idle: float | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """One attempt at an answer that is read as it comes; `idle` seconds without a byte end it with a TimeoutError.

        Raises ApiError or Unreachable on the way in; what happens while the answer is read is aiohttp's to say.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=idle)
        response = await self._opened(self._url(path, params), timeout)
        if response.status == 401 and await self._renewed():
            response.close()
            response = await self._opened(self._url(path, params), timeout)
        async with response:
            if response.status != 200:
                raise await _refusal(response)
            yield response

    @asynccontextmanager
    async def websocket(
        self, path: str, params: Params = (), protocols: Sequence[str] = CHANNELS
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A connection of both directions, for exec and port-forward."""
        await self._authorize()
        try:
            socket = await self._session.ws_connect(
                self._url(path, params),
                protocols=protocols,
                max_msg_size=0,
                heartbeat=30,
                server_hostname=self._server_name,
            )
        except aiohttp.WSServerHandshakeError as error:
            # The handshake keeps no body; the plain request is refused for the same reason, and says it.
            await self.request("GET", path, params)
            raise api_error(error.status, error.message.encode()) from None
        except _NO_ANSWER as error:
            raise self._unreachable(error) from None
        async with socket:
            yield socket

    async def _attempt(
        self, method: str, url: URL, data: bytes | None, headers: Mapping[str, str] | None
    ) -> bytes | KubeError:
        """One request: its answer, or what went wrong."""
        await self._authorize()
        started = time.perf_counter()
        try:
            async with self._session.request(
                method, url, data=data, headers=headers, allow_redirects=False, server_hostname=self._server_name
            ) as response:
                answer = await response.read()
        except _NO_ANSWER as error:
            self._observed(method, 0, started)
            return self._unreachable(error)
        self._observed(method, response.status, started)
        if 200 <= response.status < 300:
            return answer
        return api_error(response.status, answer, response.headers.get("Retry-After", ""))

    async def _opened(self, url: URL, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        await self._authorize()
        started = time.perf_counter()
        try:
            response = await self._session.get(
                url, timeout=timeout, allow_redirects=False, server_hostname=self._server_name
            )
        except _NO_ANSWER as error:
            self._observed("GET", 0, started)
            raise self._unreachable(error) from None
        self._observed("GET", response.status, started)
        return response

    async def _bear(self, error: KubeError, method: str, tries: int) -> None:
        """Waits until the same request makes sense again; raises the error when it does not."""
        if isinstance(error, Unauthorized) and tries == 1 and await self._renewed():
            return
        code = error.code if isinstance(error, ApiError) else 0
        asked = error.retry_after if isinstance(error, ApiError) else 0.0
        if asked and (code == 429 or code >= 500):
            if tries < WAIT_TRIES and asked <= LONGEST_WAIT:
                await asyncio.sleep(asked)
                return
        elif method == "GET" and (code == 0 or code >= 500) and tries < READ_TRIES:
            await asyncio.sleep(FIRST_DELAY * 2**tries * random.uniform(0.5, 1))  # noqa: S311 (no secret)
            return
        raise error

    async def _authorize(self) -> None:
        authorization = self._credential.header()
        if authorization is None:
            await self._renewed()
        elif authorization is not self._authorization:
            self._authorization = authorization
            self._session.headers["Authorization"] = authorization

    async def _renewed(self) -> bool:
        """Fetches the credentials again, and says whether they are others now."""
        before = (self._authorization, self._certificate)
        await self._credential.renew()
        if self._credential.certificate() != self._certificate:
            # Open connections keep showing the old certificate; what is read on them may go on.
            self._left.append(self._session)
            self._open()
        self._authorization = self._credential.header() or ""
        if self._authorization:
            self._session.headers["Authorization"] = self._authorization
        return (self._authorization, self._certificate) != before

    def _open(self) -> None:
        access = self.access
        self._certificate = self._credential.certificate()
        secure = access.server.startswith("https:")
        self._server_name = access.trust.server_name or None
        self._authorization = self._credential.header() or ""
        headers = CIMultiDict(access.impersonation)
        headers["User-Agent"] = f"tfjob/{__version__}"
        headers["Accept"] = headers["Content-Type"] = "application/json"
        headers["Accept-Encoding"] = "identity" if _is_near(access) else "gzip"
        if self._authorization:
            headers["Authorization"] = self._authorization
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=self._connections,
                keepalive_timeout=KEEP_ALIVE_SECONDS,
                ssl=tls.context(access.trust, self._certificate) if secure else False,
            ),
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=REQUEST_TIMEOUT,
            read_bufsize=READ_BUFFER,
            proxy=access.proxy or None,
        )

    def _url(self, path: str, params: Params) -> URL:
        query = f"?{urlencode(params)}" if params else ""
        return URL(f"{self.access.server}{path}{query}", encoded=True)

    def _observed(self, method: str, code: int, started: float) -> None:
        if self.observe is not None:
            self.observe(method, code, time.perf_counter() - started)

    def _unreachable(self, error: Exception) -> Unreachable:
        context = f" of context {self.access.context}" if self.access.context else ""
        return Unreachable(f"the API server {self.access.server}{context} does not answer: {_reason(error)}")


def selectors(label_selector: str = "", field_selector: str = "") -> dict[str, str]:
    """The parameters that narrow a list or a watch."""
    both = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in both.items() if value}


@functools.cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


async def _refusal(response: aiohttp.ClientResponse) -> ApiError:
    try:
        body = await response.read()
    except _NO_ANSWER:
        body = b""
    return api_error(response.status, body, response.headers.get("Retry-After", ""))


def _reason(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"its certificate is not trusted ({error.certificate_error})"
        case aiohttp.ClientConnectorDNSError():
            return f"{error.host} is not known"
        case TimeoutError():
            return "no answer in time"
        case aiohttp.ClientConnectorError():
            number = error.os_error.errno
            return os.strerror(number).lower() if number else str(error.os_error)
        case aiohttp.ServerDisconnectedError():
            return "it closed the connection"
    return str(error) or type(error).__name__


def _is_near(access: Access) -> bool:
    """Whether compressing a list costs more than sending it: inside the cluster, and on this machine."""
    host = URL(access.server).host or ""
    try:
        return not access.context or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
