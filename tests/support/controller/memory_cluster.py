"""A cluster in memory, with every fault that the door to a real one can show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from tfjob.api.objects import (
    ConfigMap,
    Deployment,
    Object,
    ObjectMeta,
    Pod,
    PodGroup,
    PodGroupStatus,
    PodStatus,
    Service,
)
from tfjob.api.types import TFJob
from tfjob.controller.actions import Event
from tfjob.controller.cluster import AlreadyExists, Conflict
from tfjob.controller.kind import Child, Key, OwnerObject

Hook = Callable[[str, str], None]
"""Called before each operation with its name and object; it may raise."""


class MemoryCluster:
    """Jobs and children by name; every write has a version, and a deletion takes until `settle`."""

    def __init__(self) -> None:
        self.owners: dict[Key, Any] = {}
        self.stored: dict[tuple[str, str], Object] = {}
        self.events: list[Event] = []
        self.operations: list[str] = []
        self.before: Hook = lambda operation, name: None
        self.cuts_deletions_short = False
        """Whether the deletion of a pod stops after its first write, which sets the timestamp."""
        self.clock: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.changed: asyncio.Queue[Key] = asyncio.Queue()
        self.version = 0

    # --- the door ---

    async def changes(self) -> AsyncIterator[Key]:
        for key in list(self.owners):
            yield key
        while True:
            yield await self.changed.get()

    async def owner(self, key: Key) -> Any:
        return self.owners.get(key)

    async def complete(self, key: Key, owner: OwnerObject) -> bool:
        return False

    async def children(self, child: type[Child], key: Key, owner: OwnerObject) -> list[Child]:
        known: list[Any] = [*self.stored.values(), *self.owners.values()]
        return [one for one in known if isinstance(one, child) and owner_uid(one) == owner.metadata.uid]

    async def create(self, child: Any) -> None:
        self._operate("create", f"{child.kind} {child.metadata.name}")
        if isinstance(child, TFJob):
            self.put(replace(child, metadata=replace(child.metadata, uid=f"uid-{self._next()}")))
            return
        key = (child.kind, child.metadata.name)
        if key in self.stored:
            raise AlreadyExists(child.metadata.name, ours=owner_uid(self.stored[key]) == owner_uid(child))
        metadata = replace(child.metadata, uid=f"uid-{self._next()}")
        self.stored[key] = (
            replace(child, metadata=metadata, status=PodStatus(phase="Pending"))
            if isinstance(child, Pod)
            else replace(child, metadata=metadata)
        )

    async def update(self, child: Object) -> None:
        self._operate("update", f"{child.kind} {child.metadata.name}")
        key = (child.kind, child.metadata.name)
        stored = self.stored.get(key)
        if not isinstance(stored, PodGroup) or stored.metadata.uid != child.metadata.uid:
            raise Conflict(child.metadata.name)
        assert isinstance(child, PodGroup)
        self.stored[key] = replace(stored, spec=child.spec)

    async def delete(self, key: Key, uid: str) -> None:
        self._operate("delete", f"{key.kind} {key.name}")
        if key in self.owners:
            if self.owners[key].metadata.uid == uid:
                del self.owners[key]
            return
        child = self.stored.get((key.kind, key.name))
        if child is not None and child.metadata.uid == uid:
            if isinstance(child, Pod) and self.cuts_deletions_short:
                due = child.metadata.deletion_timestamp or self.clock()
                marked = replace(child, metadata=replace(child.metadata, deletion_timestamp=due))
                self.stored[(key.kind, key.name)] = marked
            else:
                del self.stored[(key.kind, key.name)]

    async def remove_finalizer(self, key: Key, owner: OwnerObject, finalizer: str) -> None:
        self._operate("remove_finalizer", finalizer)
        stored = self.owners[key]
        kept = [one for one in stored.metadata.finalizers if one != finalizer]
        self.put(replace(stored, metadata=replace(stored.metadata, finalizers=kept)))

    async def update_status(self, key: Key, owner: Any) -> Any:
        self._operate("update_status", owner.status.state)
        stored = self.owners.get(key)
        if stored is None or stored.metadata.resource_version != owner.metadata.resource_version:
            raise Conflict(key.name)
        status = msgspec.json.decode(msgspec.json.encode(owner.status), type=type(owner.status))
        return self.put(replace(stored, status=status))

    async def lost_nodes(self) -> frozenset[str]:
        return frozenset()

    def kept_as(self, child: str, key: Key) -> str:
        return child

    def publish(self, key: Key, owner: OwnerObject, event: Event) -> None:
        self.events.append(event)

    # --- the world behind it ---

    def put(self, owner: Any) -> Any:
        """Stores an owner as a new version."""
        owner = replace(owner, metadata=replace(owner.metadata, resource_version=str(self._next())))
        self.owners[Key(owner.metadata.namespace, owner.metadata.name, owner.kind)] = owner
        return owner

    def put_foreign(self, kind: str, name: str) -> None:
        """Store an object that has no owner."""
        kinds = {known.__name__: known for known in (Pod, Service, PodGroup, ConfigMap, Deployment)}
        self.stored[(kind, name)] = kinds[kind](metadata=ObjectMeta(name=name))

    def set_pod(self, name: str, status: PodStatus) -> None:
        """What a kubelet reports."""
        pod = self.stored[("Pod", name)]
        assert isinstance(pod, Pod)
        self.stored[("Pod", name)] = replace(pod, status=status)

    def set_pod_group(self, name: str, phase: str) -> None:
        """What a gang scheduler reports."""
        group = self.stored[("PodGroup", name)]
        assert isinstance(group, PodGroup)
        self.stored[("PodGroup", name)] = replace(group, status=PodGroupStatus(phase=phase))

    def pods(self) -> list[str]:
        """The names of the pods there are."""
        return sorted(name for kind, name in self.stored if kind == "Pod")

    def tell(self, key: Key) -> None:
        """Says that something about a job changed."""
        self.changed.put_nowait(key)

    def _operate(self, operation: str, name: str) -> None:
        self.before(operation, name)
        self.operations.append(f"{operation} {name}")

    def _next(self) -> int:
        self.version += 1
        return self.version


def owner_uid(child: Object) -> str:
    """The uid of the job that a child belongs to."""
    return child.metadata.owner_references[0].uid if child.metadata.owner_references else ""
