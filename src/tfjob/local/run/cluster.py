"""This machine as the cluster of one job: its rows in the store, seen through the controller's door."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from msgspec.structs import replace

from tfjob.api.objects import Object, Pod, PodGroup
from tfjob.api.types import KIND, TFJob
from tfjob.controller.actions import Event
from tfjob.controller.cluster import Conflict, Rejected
from tfjob.controller.kind import Child, Key, Owner, OwnerObject
from tfjob.local.pod.assembly import grace_of
from tfjob.local.pod.network import Network
from tfjob.local.state.store import Store
from tfjob.plan.policy.limits import LONGEST_SECONDS


class LocalCluster:
    """The door for the controller of one run; a pod's row is a wish, and the kubelet grants it."""

    def __init__(
        self, store: Store, uid: str, network: Network, on_news: Callable[[Event], None] | None = None
    ) -> None:
        self.store = store
        self.uid = uid
        self.network = network
        self._on_news = on_news
        self._looked = asyncio.Event()

    def look(self) -> None:
        """To be called whenever somebody may have written to the store."""
        self._looked.set()

    async def changes(self) -> AsyncIterator[Key]:
        """The key of the job at first, and whenever anybody wrote to the store."""
        run = self.store.run(self.uid)
        while run is not None:
            if self.store.changed():
                yield run.key
            await self._looked.wait()
            self._looked.clear()

    async def owner(self, key: Key) -> Any:
        """Return the job, as long as its name means this run."""
        run = self.store.run(self.uid)
        return run.job if run is not None and run.current and run.key == key else None

    async def complete(self, key: Key, owner: OwnerObject) -> bool:
        """Return False: a manifest stays as it was given."""
        return False

    async def children(self, child: type[Child], key: Key, owner: OwnerObject) -> list[Child]:
        """Return the children of one type; there is no gang scheduler, and so no pod group."""
        return self.store.children(child, owner.metadata.uid)

    async def create(self, child: Object) -> None:
        """Stores a child; a pod gets the address that belongs to its name."""
        if isinstance(child, PodGroup):
            raise Rejected("NoGangScheduler", "this machine has no gang scheduler")
        if isinstance(child, Pod):
            child = replace(child, status=replace(child.status, pod_ip=self.network.address(child.metadata.name)))
        self.store.create_child(child)

    async def update(self, child: Object) -> None:
        """Raise Conflict: only pod groups are updated, and there are none here."""
        raise Conflict(child.metadata.name)

    async def remove_finalizer(self, key: Key, owner: OwnerObject, finalizer: str) -> None:
        raise NotImplementedError

    async def delete(self, key: Key, uid: str) -> None:
        """Marks a pod or the job for deletion, so that processes can end first; anything else goes at once."""
        if key.kind == KIND:
            self.store.update_job(uid, _marked)
            return
        if key.kind != "Pod":
            self.store.remove_child(uid)
            return
        for pod in self.store.children(Pod, self.uid):
            if pod.metadata.uid == uid and pod.metadata.deletion_timestamp is None:
                # As on a cluster, this is when the pod should be gone.
                gone_by = _now() + timedelta(seconds=min(grace_of(pod), LONGEST_SECONDS))
                self.store.update_child(replace(pod, metadata=replace(pod.metadata, deletion_timestamp=gone_by)))

    async def update_status(self, key: Key, owner: Owner) -> Owner:
        job: Any = owner
        written: Any = self.store.update_status(job)
        return cast("Owner", written)

    async def lost_nodes(self) -> frozenset[str]:
        """There is one node, and it is this machine."""
        return frozenset()

    def kept_as(self, child: str, key: Key) -> str:
        return child

    def publish(self, key: Key, owner: OwnerObject, event: Event) -> None:
        """Keep the event with the run, and pass it on if a terminal shows the run."""
        now = datetime.now(UTC)
        self.store.add_event(owner.metadata.uid, event.reason, event.message, warning=event.warning, now=now)
        if self._on_news:
            self._on_news(event)


def _marked(job: TFJob) -> TFJob:
    if job.metadata.deletion_timestamp is not None:
        return job
    return replace(job, metadata=replace(job.metadata, deletion_timestamp=_now()))


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
