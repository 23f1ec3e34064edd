"""Forward ports to pods of a cluster over web sockets of the API server, one per connection.

Every message begins with the number of its channel: data or error. The first message of each channel only repeats the
port number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import aiohttp

from tfjob.api.deployments import matches
from tfjob.api.objects import Deployment, Pod, Service
from tfjob.api.resources import DEPLOYMENTS, PODS, SERVICES, Resource
from tfjob.jobs.backend import Record
from tfjob.jobs.port_forward import Kept
from tfjob.kube.access.errors import KubeError
from tfjob.kube.client.client import Client

DATA, ERROR = 0, 1
PROTOCOL = "v4.channel.k8s.io"
CHUNK = 32 * 1024
RESOURCES: dict[type, Resource] = {Pod: PODS, Service: SERVICES, Deployment: DEPLOYMENTS}


class KubePlace:
    """One namespace of a cluster."""

    def __init__(self, client: Client, namespace: str, find: Callable[[str], Awaitable[Record]]) -> None:
        self._client = client
        self.namespace = namespace
        self.find = find

    async def objects(self, kind: type[Kept], labels: Mapping[str, str]) -> list[Kept]:
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        found = await self._client.list(RESOURCES[kind], self.namespace, label_selector=selector, type=kind)
        return found.items

    async def pods_of(self, owner: Deployment | Service) -> list[Pod]:
        selector = owner.spec["selector"] if isinstance(owner, Deployment) else {"matchLabels": owner.spec["selector"]}
        pods = await self.objects(Pod, selector.get("matchLabels") or {})
        return [pod for pod in pods if matches(selector, pod.metadata.labels)]

    async def connect(self, pod: Pod, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await connect(self._client, pod, port, reader, writer)


async def connect(
    client: Client, pod: Pod, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Copy data between a connection and a port of a pod until either ends. Raises KubeError."""
    path = PODS.object_path(pod.metadata.namespace, pod.metadata.name, "portforward")
    try:
        async with client.websocket(path, [("ports", str(port))], (PROTOCOL,)) as socket:
            sending = asyncio.create_task(_send(reader, socket))
            try:
                await _receive(socket, writer)
            finally:
                sending.cancel()
                with suppress(asyncio.CancelledError):
                    await sending
    except ConnectionError:
        pass  # the local client closed the connection


async def _send(reader: asyncio.StreamReader, socket: aiohttp.ClientWebSocketResponse) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(CHUNK):
            await socket.send_bytes(bytes([DATA]) + data)
    await socket.close()


async def _receive(socket: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter) -> None:
    """Copy data from the pod to the connection until the pod closes it. Raises KubeError."""
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
