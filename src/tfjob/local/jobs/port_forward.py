"""Pods of this machine as the targets of forwarded ports."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping

from tfjob.api.objects import Deployment, Pod, Service
from tfjob.jobs.backend import NotFound, Record
from tfjob.jobs.port_forward import LOCALHOST, Kept
from tfjob.local.pod.relay import join
from tfjob.local.state import addresses
from tfjob.local.state.store import Store


class LocalPlace:
    """One namespace of a state folder."""

    def __init__(self, store: Store, namespace: str, find: Callable[[str], Awaitable[Record]]) -> None:
        self._store = store
        self.namespace = namespace
        self.find = find

    async def objects(self, kind: type[Kept], labels: Mapping[str, str]) -> list[Kept]:
        found = self._store.objects(kind, self.namespace)
        return [one for one in found if labels.items() <= one.metadata.labels.items()]

    async def pods_of(self, owner: Deployment | Service) -> list[Pod]:
        """Return pods by owner, because other runs may have the same labels; a Service selects in its own tree."""
        if isinstance(owner, Deployment):
            return self._store.children(Pod, owner.metadata.uid)
        run = self._store.run(owner.metadata.owner_references[0].uid)
        tree = self._store.tree(run.root) if run else []
        pods = [pod for one in tree for pod in self._store.children(Pod, one.uid)]
        return [pod for pod in pods if owner.spec["selector"].items() <= pod.metadata.labels.items()]

    async def connect(self, pod: Pod, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connect to the pod's address; the pod may have another port in place of the requested one."""
        owner, name = pod.metadata.owner_references[0].uid, pod.metadata.name
        _, ports = addresses.leases(self._store.connection, owner).get(name, ("", {}))
        try:
            connection = await asyncio.open_connection(pod.status.pod_ip or LOCALHOST, ports.get(port, port))
        except OSError as error:
            writer.close()
            why = os.strerror(error.errno) if error.errno else str(error)
            raise NotFound(f"pod {name} does not answer on port {port}: {why}") from None
        await join(reader, writer, *connection)
