"""The Services of a tree: each connection to a port goes to the next ready pod that the selector matches."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from tfjob.api.objects import Pod, Service
from tfjob.local.pod.network import LOOPBACK, Network, taken_host_port, tcp_ports, told_ports
from tfjob.local.pod.relay import join
from tfjob.local.state.errors import Refusal

Address = tuple[str, int]


class Services:
    """The forwarded Services of a driver; it calls `announce` once for each that is ready, `warn` once per problem."""

    def __init__(
        self, network: Network, announce: Callable[[Service, Pod], None], warn: Callable[[Service, str], None]
    ) -> None:
        self._network = network
        self._announce = announce
        self._warn = warn
        self._ports: dict[str, dict[int, _Port]] = {}
        """By uid of the Service and by port."""
        self._announced: set[str] = set()
        self._troubles: dict[str, str] = {}
        """Why a Service does not listen, by uid."""

    def sync(self, services: Sequence[Service], pods: Sequence[Pod]) -> None:
        """Listen for new Services, stop listening for removed ones, and update the pods of each."""
        present = {service.metadata.uid for service in services}
        for uid in self._ports.keys() - present:
            for port in self._ports.pop(uid).values():
                port.close()
            self._announced.discard(uid)
        for service in services:
            uid = service.metadata.uid
            try:
                self._sync(service, [pod for pod in pods if selects(service, pod)])
            except (OSError, Refusal) as error:
                reason = error.message if isinstance(error, Refusal) else error.strerror or str(error)
                if reason != self._troubles.get(uid):
                    self._warn(service, reason)
                    self._troubles[uid] = reason
            else:
                self._troubles.pop(uid, None)

    async def close(self) -> None:
        ports = [port for some in self._ports.values() for port in some.values()]
        self._ports.clear()
        await asyncio.gather(*(port.end() for port in ports))

    def _sync(self, service: Service, pods: Sequence[Pod]) -> None:
        uid = service.metadata.uid
        ports = self._ports.setdefault(uid, {})
        if len(ports) < len(told_ports(service)):
            self._network.lease(service)
            if not ports and (taken := taken_host_port(service)):
                raise Refusal(f"port {taken[0]} of {LOOPBACK} is in use by {taken[1]}")
            for port, outside in self._network.publish(service).items():
                if port not in ports:
                    ports[port] = _Port({(LOOPBACK, outside), self._network.at(service, port)})
        targets = {one["port"]: one.get("targetPort") or one["port"] for one in tcp_ports(service)}
        for port, forwarded in ports.items():
            found = ((pod, pod.port(targets[port])) for pod in pods)
            forwarded.targets = [self._network.at(pod, number) for pod, number in found if number is not None]
        ready = next((pod for pod in pods if pod.is_ready), None)
        if ready and uid not in self._announced and any(forwarded.targets for forwarded in ports.values()):
            self._announce(service, ready)
            self._announced.add(uid)


def selects(service: Service, pod: Pod) -> bool:
    if pod.metadata.namespace != service.metadata.namespace:
        return False
    wanted: Mapping[str, str] = service.spec.get("selector") or {}
    early = service.spec.get("publishNotReadyAddresses") and pod.metadata.deletion_timestamp is None
    return wanted.items() <= pod.metadata.labels.items() and bool(early or pod.is_ready)


class _Port:
    """One port of a Service: the addresses where it listens, and the pods that it forwards to in turn."""

    def __init__(self, addresses: Iterable[Address]) -> None:
        self.targets: list[Address] = []
        self._turn = 0
        self._connections: set[asyncio.Task[None]] = set()
        self._sockets: list[socket.socket] = []
        try:
            for address in sorted(addresses):
                self._sockets.append(socket.create_server(address))
        except OSError:
            for one in self._sockets:
                one.close()
            raise
        self._servers = [asyncio.create_task(asyncio.start_server(self._connected, sock=one)) for one in self._sockets]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if pod := await self._connect():
                await join(reader, writer, *pod)
        except asyncio.CancelledError:
            pass  # the run ends; asyncio would log an error for the connection
        finally:
            writer.close()
            self._connections.discard(task)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        self._turn += 1
        first = self._turn % (len(self.targets) or 1)
        for host, port in (*self.targets[first:], *self.targets[:first]):
            with suppress(OSError, OverflowError):
                return await asyncio.open_connection(host, port)
        return None

    def close(self) -> None:
        """Stop listening; existing connections stay."""
        for one in self._servers:
            one.cancel()
            if one.done() and not one.cancelled():
                one.result().close()
        for listening in self._sockets:
            listening.close()

    async def end(self) -> None:
        self.close()
        for task in self._connections:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self._connections, *self._servers, return_exceptions=True)
