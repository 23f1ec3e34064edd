"""What the loop needs from a cluster. A laptop and Kubernetes both implement it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol

from tfjob.api.objects import Object
from tfjob.controller.actions import Event
from tfjob.controller.kind import Child, Key, Owner, OwnerObject


class Conflict(Exception):
    """The object changed since it was read: read and decide again."""


class AlreadyExists(Exception):
    """An object of that name exists; `ours` says whether it belongs to the same owner."""

    def __init__(self, name: str, *, ours: bool) -> None:
        super().__init__(name)
        self.ours = ours


class Rejected(Exception):
    """The cluster rejects an object: a reason in CamelCase and a sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Cluster(Protocol):
    """Reads and writes the objects of one cluster. Every write is fenced: a stale reader cannot do harm."""

    def changes(self) -> AsyncIterator[Key]:
        """Yield the keys of owners that changed, or whose children did; first every owner that exists."""

    async def owner(self, key: Key) -> Any:
        """Return the owner with its defaults, or None if there is none. Raises Invalid."""

    async def complete(self, key: Key, owner: OwnerObject) -> bool:
        """Write defaults into the stored spec, for kinds that keep them there; return whether any were missing."""

    async def children(self, child: type[Child], key: Key, owner: OwnerObject) -> list[Child]:
        """Return the children of one type."""

    async def create(self, child: Object) -> None:
        """Create a child. Raises AlreadyExists or Rejected."""

    async def update(self, child: Object) -> None:
        """Write the spec of a child that was read. Raises Conflict if it changed since or is gone."""

    async def delete(self, key: Key, uid: str) -> None:
        """Delete the object of that key if it still has that uid; it may be gone already."""

    async def remove_finalizer(self, key: Key, owner: OwnerObject, finalizer: str) -> None:
        """Remove a finalizer of the owner. Raises Conflict if the owner changed since it was read."""

    async def update_status(self, key: Key, owner: Owner) -> Owner:
        """Write the status of the owner that was read. Raises Conflict if it changed since."""

    async def lost_nodes(self) -> frozenset[str]:
        """Return the names of the nodes that do not answer."""

    def kept_as(self, child: str, key: Key) -> str:
        """Return the kind of object under which users find a child of that kind; usually the same."""

    def publish(self, key: Key, owner: OwnerObject, event: Event) -> None:
        """Publish an event about the owner; this never fails and never waits."""
