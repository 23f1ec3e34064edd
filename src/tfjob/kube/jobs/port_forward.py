"""A port of this machine that leads to a port of a pod, over web sockets of the API server: one for each connection.

Every message begins with the number of its channel: data, or what went wrong. The first message of each channel only
repeats the number of the port.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from tfjob.api.resources import PODS
from tfjob.kube.access.errors import KubeError
from tfjob.kube.client.client import Client

if TYPE_CHECKING:
    import aiohttp

logger = logging.getLogger(__name__)

DATA, ERROR = 0, 1
PROTOCOL = "v4.channel.k8s.io"
CHUNK = 32 * 1024
HOST = "127.0.0.1"


class PortForward:
    """Connections to a port of whichever pod `find_pod` names when they begin."""

    def __init__(self, client: Client, namespace: str, find_pod: Callable[[], Awaitable[str]], port: int) -> None:
        self._client = client
        self._namespace = namespace
        self._find_pod = find_pod
        self._port = port
        self._failed = ""

    async def listen(self, port: int) -> asyncio.Server:
        """Begins to accept connections at a port of this machine, 0 for any. Raises OSError."""
        return await asyncio.start_server(self._connected, HOST, port)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            pod = await self._find_pod()
            path = PODS.object_path(self._namespace, pod, "portforward")
            async with self._client.websocket(path, [("ports", str(self._port))], (PROTOCOL,)) as socket:
                sending = asyncio.create_task(_send(reader, socket))
                try:
                    await _receive(socket, writer)
                finally:
                    sending.cancel()
                    with suppress(asyncio.CancelledError):
                        await sending
            self._failed = ""
        except KubeError as error:
            if error.message != self._failed:  # a browser asks again and again
                self._failed = error.message
                logger.warning("%s", error.message)
        except ConnectionError:
            pass  # the browser has gone away
        finally:
            writer.close()


async def _send(reader: asyncio.StreamReader, socket: aiohttp.ClientWebSocketResponse) -> None:
    """Copies from the connection to the pod until either ends."""
    with suppress(ConnectionError):
        while data := await reader.read(CHUNK):
            await socket.send_bytes(bytes([DATA]) + data)
    await socket.close()


async def _receive(socket: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter) -> None:
    """Copies from the pod to the connection until the pod's end of it is closed. Raises KubeError."""
    begun: set[int] = set()
    async for message in socket:
        data: bytes = message.data if isinstance(message.data, bytes) else str(message.data).encode()
        if not data:
            continue
        channel, content = data[0], data[1:]
        if channel not in begun:
            begun.add(channel)
        elif channel == ERROR and content:
            raise KubeError(content.decode(errors="replace").strip())
        elif channel == DATA:
            writer.write(content)
            await writer.drain()
