"""The pods of this machine as the ends of forwarded ports."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping

from tfjob.api.objects import Deployment, Pod, Service
from tfjob.jobs.backend import NotFound, Record
from tfjob.jobs.port_forward import LOCALHOST, Kept
from tfjob.local.pod.relay import relay
from tfjob.local.state import addresses
from tfjob.local.state.store import Store


class LocalPlace:
    """One namespace of a state folder."""

    def __init__(self, store: Store, namespace: str, find: Callable[[str], Awaitable[Record]]) -> None:
        self._store = store
        self._namespace = namespace
        self.find = find

    async def objects(self, kind: type[Kept], labels: Mapping[str, str]) -> list[Kept]:
        found = self._store.objects(kind, self._namespace)
        return [one for one in found if labels.items() <= one.metadata.labels.items()]

    async def pods_of(self, owner: Deployment | Service) -> list[Pod]:
        """By owner, because other runs may have pods with the same labels; a Service selects within its own tree."""
        if isinstance(owner, Deployment):
            return self._store.children(Pod, owner.metadata.uid)
        run = self._store.run(owner.metadata.owner_references[0].uid)
        tree = self._store.tree(run.root) if run else []
        pods = [pod for one in tree for pod in self._store.children(Pod, one.uid)]
        return [pod for pod in pods if owner.spec["selector"].items() <= pod.metadata.labels.items()]

    async def connect(self, pod: Pod, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Over the pod's address; a pod may have another port than the one that it asked for."""
        owner, name = pod.metadata.owner_references[0].uid, pod.metadata.name
        _, ports = addresses.leases(self._store.connection, owner).get(name, ("", {}))
        try:
            await relay(reader, writer, pod.status.pod_ip or LOCALHOST, ports.get(port, port))
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise NotFound(f"pod {name} does not answer on port {port}: {why}") from None
