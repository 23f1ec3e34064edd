"""This machine as the cluster of one root run and everything that the run owns: their rows in the store."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from tfjob.api.objects import Object, Pod, PodGroup, Service
from tfjob.controller.actions import LOG_LOST, Event
from tfjob.controller.cluster import Conflict, Rejected
from tfjob.controller.kind import Child, Key, Kind, Owner, OwnerObject, Stored, decode_readable
from tfjob.local.pod.assembly import grace_of
from tfjob.local.pod.network import Network
from tfjob.local.run.lifetime import add_run
from tfjob.local.state.addresses import AddressError
from tfjob.local.state.home import Home
from tfjob.local.state.options import Options
from tfjob.local.state.store import Run, Store, marked_for_deletion

MOST_UNSTORED = 1000
"""Most events in memory while the disk is full; then the oldest ones are dropped."""
LONGEST_SECONDS = 10**9
"""Thirty years: with a longer grace period the time of deletion may not be a valid date."""


class LocalCluster:
    """The cluster of one root run. It stores pods; the kubelet then starts and ends their processes."""

    def __init__(
        self,
        home: Home,
        store: Store,
        root: Run,
        kinds: Iterable[Kind[Any]],
        network: Network,
        on_news: Callable[[Event], None] | None = None,
    ) -> None:
        self.home = home
        self.store = store
        self.root = root
        self.kinds = {kind.resource.kind: kind for kind in kinds}
        self.network = network
        self._by_type = {kind.owner_type: kind for kind in self.kinds.values()}
        self._on_news = on_news
        self._looked = asyncio.Event()
        self._seen: dict[str, tuple[int, int]] = {}
        self._unstored: dict[tuple[str, str, str], tuple[Event, datetime]] = {}
        self._leaving: dict[str, dict[str, str]] = {}
        """By owner, the version of each deleted pod that the last pass over the owner has read."""

    def look(self) -> None:
        self._looked.set()

    async def changes(self) -> AsyncIterator[Key]:
        """Yield the keys of owners in the tree of the root that changed, or whose children changed."""
        while True:
            if self.store.changed():
                for key in self._changed():
                    yield key
            await self._looked.wait()
            self._looked.clear()

    async def owner(self, key: Key) -> Any:
        """Return the owner; None if the tree has no run of that name, or if the owner can be deleted now."""
        run = next((run for run in self.store.tree(self.root.uid) if run.key == key), None)
        return None if run is None or _is_going(run) else self.kinds[key.kind].decode(run.stored)

    async def complete(self, key: Key, owner: OwnerObject) -> bool:
        return False  # a manifest is never changed on this machine

    async def children(self, child: type[Child], key: Key, owner: OwnerObject) -> list[Child]:
        kind = self._by_type.get(child)
        if kind is None:
            found = self.store.children(child, owner.metadata.uid)
            if child is Pod:
                leaving = (one.metadata for one in found if one.metadata.deletion_timestamp)
                self._leaving[owner.metadata.uid] = {one.uid: one.resource_version for one in leaving}
            return found
        return [decode_readable(kind, stored) for stored in self.store.owned(kind.resource.kind, owner.metadata.uid)]

    async def create(self, child: Object) -> None:
        """Store a child. A pod gets the address of its name; a child that is itself an owner gets a run."""
        if isinstance(child, PodGroup):
            raise Rejected("NoGangScheduler", "this machine has no gang scheduler")
        if type(child) in self._by_type:
            add_run(self.home, self.store, child, Options.load(self.root.folder).save, root=self.root.uid)
            return
        if isinstance(child, Pod):
            child = replace(child, status=replace(child.status, pod_ip=self._lease(child)))
        elif isinstance(child, Service):
            self._lease(child)
        self.store.create_child(child)

    def has_read(self, pod: Pod) -> bool:
        """Return whether a pass over the owner of a deleted pod has read the present version of the pod."""
        read = self._leaving.get(pod.metadata.owner_references[0].uid, {})
        return read.get(pod.metadata.uid) == pod.metadata.resource_version

    async def update(self, child: Object) -> None:
        """Write the spec of an owner that another owner owns; no other children are updated."""
        if type(child) not in self._by_type:
            raise Conflict(child.metadata.name)
        spec = msgspec.json.encode(cast("Any", child).spec)
        self.store.update_unchanged(child.metadata, lambda stored: replace(stored, spec=spec))

    async def remove_finalizer(self, key: Key, owner: OwnerObject, finalizer: str) -> None:
        kept = [one for one in owner.metadata.finalizers if one != finalizer]

        def change(stored: Stored) -> Stored:
            return replace(stored, metadata=replace(stored.metadata, finalizers=kept))

        self.store.update_unchanged(owner.metadata, change)

    async def delete(self, key: Key, uid: str) -> None:
        """Mark a pod or an owner for deletion, so that its processes can end first; remove any other child now."""
        if self.store.run(uid) is not None:
            self.store.update(uid, marked_for_deletion)
        elif key.kind == "Pod":
            self.store.update(uid, _terminating)
        else:
            self.store.remove_child(uid)

    async def update_status(self, key: Key, owner: Owner) -> Owner:
        status = msgspec.json.encode(self.kinds[key.kind].encode_status(owner))
        written: Any = owner
        metadata = self.store.update_unchanged(owner.metadata, lambda stored: replace(stored, status=status))
        return cast("Owner", replace(written, metadata=metadata))

    async def lost_nodes(self) -> frozenset[str]:
        return frozenset()  # this machine is the only node

    def kept_as(self, child: str, key: Key) -> str:
        return child

    def publish(self, key: Key, owner: OwnerObject, event: Event) -> None:
        self.publish_about(owner.metadata.uid, event)

    def publish_about(self, uid: str, event: Event) -> None:
        """Pass an event of a run on if a terminal shows the run, and store it, on a full disk once it has space."""
        if self._on_news and uid == self.root.uid:
            self._on_news(event)
        # Of lost output, only the last report of a pod waits: the first free space is for states.
        subject = event.message.partition(": ")[0] if event.reason == LOG_LOST else event.message
        key = (uid, event.reason, subject)
        self._unstored.pop(key, None)
        self._unstored[key] = (event, datetime.now(UTC))
        if len(self._unstored) > MOST_UNSTORED:
            del self._unstored[next(iter(self._unstored))]
        self.store_events()

    def store_events(self) -> None:
        """Store the events that wait for space on the disk."""
        while self._unstored:
            key = next(iter(self._unstored))
            event, time = self._unstored[key]
            try:
                self.store.add_event(key[0], event.reason, event.message, warning=event.warning, now=time)
            except sqlite3.Error:
                return
            del self._unstored[key]

    def publish_notes(self, uid: str) -> None:
        while self.network.notes:
            self.publish_about(uid, Event("PortTaken", self.network.notes.pop(), warning=True))

    def collect(self) -> None:
        """Delete everything that belongs to owners under deletion without finalizers, then free their names."""
        runs = self.store.tree(self.root.uid)
        for run in runs:
            if not _is_going(run):
                continue
            pods = self.store.children(Pod, run.uid)
            for pod in pods:
                self.store.update(pod.metadata.uid, marked_for_deletion)
            owned = [one for one in runs if one.owner == run.uid]
            for one in owned:
                self.store.update(one.uid, marked_for_deletion)
            if not pods and not owned:
                self.store.retire(run.uid)

    def _changed(self) -> list[Key]:
        tree = self.store.tree(self.root.uid)
        if len(tree) == 1 and not self._seen:
            return [tree[0].key]
        before, self._seen = self._seen, self.store.versions(self.root.uid)
        return [run.key for run in tree if before.get(run.uid) != self._seen.get(run.uid)]

    def _lease(self, child: Pod | Service) -> str:
        try:
            address = self.network.lease(child)
        except AddressError as error:
            raise Rejected("NoAddress", error.message) from None
        self.publish_notes(child.metadata.owner_references[0].uid)
        return address


def _is_going(run: Run) -> bool:
    """Return whether an owner is under deletion and has no finalizers; an API server would have removed it."""
    metadata = run.stored.metadata
    return metadata.deletion_timestamp is not None and not metadata.finalizers


def _terminating(stored: Stored) -> Stored:
    """Return a pod with the time by which it should be gone as its deletion time, as on a cluster."""
    if stored.metadata.deletion_timestamp is not None:
        return stored
    grace = timedelta(seconds=min(grace_of(msgspec.json.decode(stored.spec)), LONGEST_SECONDS))
    gone_by = datetime.now(UTC).replace(microsecond=0) + grace
    return replace(stored, metadata=replace(stored.metadata, deletion_timestamp=gone_by))
