"""This machine as the cluster of one job: its rows in the store, seen through the controller's door."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from tfjob.api.objects import AnyChild, Pod, PodGroup
from tfjob.api.types import KIND, TFJob
from tfjob.controller.cluster import Child, Conflict, Key, Refused
from tfjob.local.pod.assembly import grace_of
from tfjob.local.pod.network import Network
from tfjob.local.state.store import Store
from tfjob.plan.actions import Event
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

    async def job(self, key: Key) -> TFJob | None:
        """The job, as long as its name means this run."""
        run = self.store.run(self.uid)
        return run.job if run is not None and run.current and run.key == key else None

    async def complete(self, job: TFJob) -> bool:
        """A manifest stays as it was given."""
        return False

    async def children(self, kind: type[Child], job: TFJob) -> list[Child]:
        """The children of the job of one kind; there is no gang scheduler, and so no pod group."""
        return self.store.children(kind, job.metadata.uid)

    async def create(self, child: AnyChild) -> None:
        """Stores a child; a pod gets the address that belongs to its name."""
        if isinstance(child, PodGroup):
            raise Refused("NoGangScheduler", "this machine has no gang scheduler")
        if isinstance(child, Pod):
            child = replace(child, status=replace(child.status, pod_ip=self.network.address(child.metadata.name)))
        self.store.create_child(child)

    async def update(self, child: PodGroup) -> None:
        """There are no pod groups here."""
        raise Conflict(child.metadata.name)

    async def delete(self, kind: str, key: Key, uid: str) -> None:
        """Marks a pod or the job for deletion, so that processes can end first; anything else goes at once."""
        if kind == KIND:
            self.store.update_job(uid, _marked)
            return
        if kind != "Pod":
            self.store.remove_child(uid)
            return
        for pod in self.store.children(Pod, self.uid):
            if pod.metadata.uid == uid and pod.metadata.deletion_timestamp is None:
                # As on a cluster, this is when the pod should be gone.
                gone_by = _now() + timedelta(seconds=min(grace_of(pod), LONGEST_SECONDS))
                self.store.update_child(replace(pod, metadata=replace(pod.metadata, deletion_timestamp=gone_by)))

    async def update_status(self, job: TFJob) -> TFJob:
        """Writes the status of the job as it was read."""
        return self.store.update_status(job)

    async def lost_nodes(self) -> frozenset[str]:
        """There is one node, and it is this machine."""
        return frozenset()

    def kept_as(self, kind: str, job: TFJob) -> str:
        """Here a pod is a pod, also that of a TfJob."""
        return kind

    def publish(self, job: TFJob, news: Event) -> None:
        """Keeps the news with the run, and shows them if somebody watches."""
        self.store.add_event(job.metadata.uid, news.reason, news.message, warning=news.warning, now=datetime.now(UTC))
        if self._on_news:
            self._on_news(news)


def _marked(job: TFJob) -> TFJob:
    if job.metadata.deletion_timestamp is not None:
        return job
    return replace(job, metadata=replace(job.metadata, deletion_timestamp=_now()))


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
