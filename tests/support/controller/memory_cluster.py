"""A cluster in memory, with every fault that the door to a real one can show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import cast, get_args

import msgspec
from msgspec.structs import replace

from tfjob.api.objects import AnyChild, ObjectMeta, Pod, PodGroup, PodGroupStatus, PodStatus
from tfjob.api.types import KIND, TFJob
from tfjob.controller.cluster import AlreadyExists, Child, Conflict, Key
from tfjob.plan.actions import Event

Hook = Callable[[str, str], None]
"""Called before each operation with its name and object; it may raise."""


class MemoryCluster:
    """Jobs and children by name; every write has a version, and a deletion takes until `settle`."""

    def __init__(self) -> None:
        self.jobs: dict[Key, TFJob] = {}
        self.stored: dict[tuple[str, str], AnyChild] = {}
        self.news: list[Event] = []
        self.operations: list[str] = []
        self.before: Hook = lambda operation, name: None
        self.cuts_deletions_short = False
        """Whether the deletion of a pod stops after its first write, which sets the timestamp."""
        self.clock: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.changed: asyncio.Queue[Key] = asyncio.Queue()
        self.version = 0

    # --- the door ---

    async def changes(self) -> AsyncIterator[Key]:
        for key in list(self.jobs):
            yield key
        while True:
            yield await self.changed.get()

    async def job(self, key: Key) -> TFJob | None:
        return self.jobs.get(key)

    async def complete(self, job: TFJob) -> bool:
        return False

    async def children(self, kind: type[Child], job: TFJob) -> list[Child]:
        mine = [child for child in self.stored.values() if owner(child) == job.metadata.uid]
        return cast("list[Child]", [child for child in mine if isinstance(child, kind)])

    async def create(self, child: AnyChild) -> None:
        self._operate("create", f"{child.kind} {child.metadata.name}")
        key = (child.kind, child.metadata.name)
        if key in self.stored:
            raise AlreadyExists(child.metadata.name, ours=owner(self.stored[key]) == owner(child))
        metadata = replace(child.metadata, uid=f"uid-{self._next()}")
        self.stored[key] = (
            replace(child, metadata=metadata, status=PodStatus(phase="Pending"))
            if isinstance(child, Pod)
            else replace(child, metadata=metadata)
        )

    async def update(self, child: PodGroup) -> None:
        self._operate("update", f"{child.kind} {child.metadata.name}")
        key = (child.kind, child.metadata.name)
        stored = self.stored.get(key)
        if not isinstance(stored, PodGroup) or stored.metadata.uid != child.metadata.uid:
            raise Conflict(child.metadata.name)
        self.stored[key] = replace(stored, spec=child.spec)

    async def delete(self, kind: str, key: Key, uid: str) -> None:
        self._operate("delete", f"{kind} {key.name}")
        if kind == KIND:
            if key in self.jobs and self.jobs[key].metadata.uid == uid:
                del self.jobs[key]
            return
        child = self.stored.get((kind, key.name))
        if child is not None and child.metadata.uid == uid:
            if isinstance(child, Pod) and self.cuts_deletions_short:
                due = child.metadata.deletion_timestamp or self.clock()
                self.stored[(kind, key.name)] = replace(child, metadata=replace(child.metadata, deletion_timestamp=due))
            else:
                del self.stored[(kind, key.name)]

    async def update_status(self, job: TFJob) -> TFJob:
        self._operate("update_status", job.status.state)
        key = Key(job.metadata.namespace, job.metadata.name)
        stored = self.jobs.get(key)
        if stored is None or stored.metadata.resource_version != job.metadata.resource_version:
            raise Conflict(key.name)
        status = msgspec.json.decode(msgspec.json.encode(job.status), type=type(job.status))
        return self.put(replace(stored, status=status))

    async def lost_nodes(self) -> frozenset[str]:
        return frozenset()

    def kept_as(self, kind: str, job: TFJob) -> str:
        return kind

    def publish(self, job: TFJob, news: Event) -> None:
        self.news.append(news)

    # --- the world behind it ---

    def put(self, job: TFJob) -> TFJob:
        """Stores a job as a new version."""
        job = replace(job, metadata=replace(job.metadata, resource_version=str(self._next())))
        self.jobs[Key(job.metadata.namespace, job.metadata.name)] = job
        return job

    def put_foreign(self, kind: str, name: str) -> None:
        """Stores an object that belongs to nobody we know."""
        kinds = {known.__name__: known for known in get_args(AnyChild)}
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


def owner(child: AnyChild) -> str:
    """The uid of the job that a child belongs to."""
    return child.metadata.owner_references[0].uid if child.metadata.owner_references else ""
