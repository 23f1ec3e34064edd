"""The connections to one API server: a limited number, kept open for the next request."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import unquote, urlsplit

from tfjob.durations import USUAL, Durations
from tfjob.kube.access.config import Access
from tfjob.kube.access.credentials import basic
from tfjob.kube.http.answer import Answer
from tfjob.kube.http.connection import Broken, Connection

PROBES = 4
"""Keep-alive probes; with the quiet time before the first one, they detect a dead connection in time."""


class Pool:
    """Connections to a server, over TLS if there is a context, and through its proxy if there is one."""

    def __init__(
        self, access: Access, context: ssl.SSLContext | None, limit: int = 100, durations: Durations = USUAL
    ) -> None:
        url = urlsplit(access.server)
        self._host = url.hostname or ""
        self._port = url.port or (443 if context else 80)
        self._context = context
        self._server_name = (access.trust.server_name or self._host) if context else None
        self._proxy = access.proxy
        self._dead = max(1, round(durations.dead_connection.total_seconds()))
        self._patience = durations.connect.total_seconds()
        self._keep_alive = durations.keep_alive.total_seconds()
        self._permits = asyncio.Semaphore(limit)
        self._idle: list[Connection] = []
        self._closed = False

    async def exchange(
        self, message: bytes, seconds: float, *, repeatable: bool, fence: Callable[[], None] | None = None
    ) -> Answer:
        """Send a request and wait for its whole response. Raises OSError, or what `fence` raises.

        A `repeatable` request is sent again if a connection that was kept open turns out to be closed. `fence` is
        called immediately before sending, after all waiting.
        """
        async with self._permits:
            while True:
                connection, is_new = await self._take()
                try:
                    if fence is not None:
                        fence()
                    return await connection.send(message, seconds)
                except Broken:
                    if is_new or not repeatable or connection.answered:
                        raise
                finally:
                    self._keep(connection)

    @asynccontextmanager
    async def stream(self, message: bytes, idle: float | None) -> AsyncIterator[tuple[Answer, Connection]]:
        """Send a repeatable request; the caller reads the response from the connection. Raises OSError."""
        async with self._permits:
            connection, is_new = await self._take()
            try:
                try:
                    answer = await connection.send(message, idle, whole=False)
                except Broken:
                    if is_new or connection.answered:
                        raise
                    self._keep(connection)
                    connection = await self._connect()
                    answer = await connection.send(message, idle, whole=False)
                yield answer, connection
            finally:
                self._keep(connection)

    async def close(self) -> None:
        """Close idle connections now, and the others when they are done."""
        self._closed = True
        self._abort_idle()
        await asyncio.sleep(0)  # the event loop closes the sockets in its next round

    async def _take(self) -> tuple[Connection, bool]:
        if any(connection.peer_is_gone for connection in self._idle):
            self._abort_idle()
        oldest = asyncio.get_running_loop().time() - self._keep_alive
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and connection.idle_since > oldest:
                return connection, False
            connection.abort()
        return await self._connect(), True

    def _keep(self, connection: Connection) -> None:
        if connection.peer_is_gone:
            # The others lead to the same machine; a request over one of them would have to time out again.
            self._abort_idle()
        if self._closed or not connection.usable:
            connection.abort()
            return
        connection.idle_since = asyncio.get_running_loop().time()
        self._idle.append(connection)

    def _abort_idle(self) -> None:
        for connection in self._idle:
            connection.abort()
        self._idle.clear()

    async def _connect(self) -> Connection:
        async with asyncio.timeout(self._patience):
            if self._proxy:
                return await self._tunnel()
            transport, connection = await asyncio.get_running_loop().create_connection(
                Connection, self._host, self._port, ssl=self._context, server_hostname=self._server_name
            )
            _probe(transport, self._dead)
            return connection

    async def _tunnel(self) -> Connection:
        loop = asyncio.get_running_loop()
        proxy = urlsplit(self._proxy)
        secure = ssl.create_default_context() if proxy.scheme == "https" else None
        _, outer = await loop.create_connection(
            Connection, proxy.hostname or "", proxy.port or (443 if secure else 80), ssl=secure
        )
        _probe(outer.transport, self._dead)
        target = f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"
        who = ""
        if proxy.username:
            who = f"Proxy-Authorization: {basic(unquote(proxy.username), unquote(proxy.password or ''))}\r\n"
        try:
            message = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{who}\r\n".encode()
            answer = await outer.send(message, self._patience, bodyless=True)
            if answer.status != 200:
                raise Broken(f"the proxy {proxy.hostname} answered with HTTP status {answer.status}")
            if self._context is None:
                return outer
            inner = Connection()
            transport = await loop.start_tls(outer.transport, inner, self._context, server_hostname=self._server_name)
            if transport is None:
                raise Broken(f"the proxy {proxy.hostname} closed the connection")
            inner.connection_made(transport)
        except BaseException:
            outer.abort()
            raise
        return inner


def _probe(transport: asyncio.BaseTransport, dead: int) -> None:
    """Make the kernel detect a machine or network that is gone: a log may be quiet for hours."""
    connected = transport.get_extra_info("socket")
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    every = max(1, dead // (PROBES + 1))
    settings = {"KEEPIDLE": every, "KEEPINTVL": every, "KEEPCNT": PROBES, "USER_TIMEOUT": 1000 * dead}
    for name, value in settings.items():
        if (option := getattr(socket, f"TCP_{name}", None)) is not None:  # some exist only on Linux
            connected.setsockopt(socket.IPPROTO_TCP, option, value)
