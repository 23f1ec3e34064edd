"""Attached runs on a cluster: this process follows the jobs and records their output; they continue without it."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import msgspec

from tfjob.api.objects import Pod
from tfjob.api.resources import CORE_EVENTS
from tfjob.api.types import TFJob
from tfjob.controller.actions import Event
from tfjob.jobs.backend import Line, LogQuery, Record, Usage
from tfjob.jobs.progress import Snapshot
from tfjob.jobs.replicas import replicas
from tfjob.kube.access.errors import ApiError, Forbidden, Unreachable
from tfjob.kube.cache.reflector import Reflector
from tfjob.kube.cache.store import ObjectStore
from tfjob.kube.jobs.backend import KubeBackend, SyncKubeBackend
from tfjob.kube.jobs.follower import Followed, Follower
from tfjob.kube.jobs.jobs import NOT_PICKED_UP, KubeEvent, is_unseen
from tfjob.kube.jobs.metrics import usage_by_pod
from tfjob.plan.facts.tasks import task_of

MOST_UNKEPT = 10_000
"""Most lines in memory that could be neither recorded nor shown yet; at that limit, reading pauses."""
LOST_FACTOR = 10
"""Lines that could not be recorded are reported again when there are more by this factor."""
LOOK_SECONDS = 0.02
OVERLAP = timedelta(seconds=30)
"""How far before the end of a record the output is read again: replicas do not deliver their lines in order of time."""

_decode_event = msgspec.json.Decoder(KubeEvent).decode


class FollowedJob:
    """One job that this process follows, as an `AttachedJob`."""

    def __init__(self, backend: KubeBackend, record: Record, tail: int | None) -> None:
        """Follow a job from its first line or, with a `tail`, a job that has been running for some time."""
        self.record = record
        self.job = record.job
        self.tail = tail
        where = backend.client.access.context or "the cluster"
        self.opening = f"starting on {where}" if tail is None else f"attached to {record.id} on {where}"
        self.found: Sequence[Event] = ()
        self.news: deque[tuple[datetime, Event]] = deque()
        self.notices: deque[str] = deque()
        self._backend = backend
        self._pods: Callable[[], list[Pod]] = list
        self._usage: Mapping[str, Usage] = {}
        self._unkept: deque[Line] = deque()
        self._begun = datetime.now(UTC).replace(microsecond=0)  # events have times of whole seconds
        earlier = backend.records.of(record.job)
        self._earlier = earlier.last_lines(OVERLAP) if earlier else Counter[Line]()
        self._writer = backend.records.begin(record.job)
        self._told_lost = 0
        self.folder = self._writer.folder

    def unkept(self) -> list[Line]:
        return [self._unkept.popleft() for _ in range(len(self._unkept))]

    def snapshot(self) -> Snapshot:
        job, pods = self.job, self._pods()
        tasks = {pod.metadata.name: task.name for pod in pods if (task := task_of(pod))}
        usage = {tasks[pod]: used for pod, used in self._usage.items() if pod in tasks}
        return Snapshot(self._backend.record(job), replicas(job, pods), usage)

    async def follow(self, backend: KubeBackend, on_change: Callable[[], None], *, measure: bool) -> None:
        self._on_change = on_change
        work = [self._follow_events(backend), self._report_unseen(), *([self._measure(backend)] if measure else [])]
        tasks = [asyncio.create_task(one) for one in work]
        try:
            async with Follower(backend.client, self.record.job, self._query(), self._changed) as follower:
                self._pods = lambda: follower.pods
                async for lines in follower.lines():
                    self.keep(lines)
                    on_change()
                    while len(self._unkept) > MOST_UNKEPT:
                        await asyncio.sleep(LOOK_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._tell_lost(1)
            if self._writer.trouble and not self._writer.lost:
                self.notices.append(f"the record on this machine is incomplete: {self._writer.trouble}")

    def _query(self) -> LogQuery:
        """Return the lines to read of present containers: those that an earlier record lacks, or the last ones."""
        if self._earlier:
            return LogQuery(since=min(line.time for line in self._earlier))
        return LogQuery(tail=self.tail)

    def _is_new(self, followed: Followed) -> bool:
        """Return whether the record of an earlier attachment lacks a line."""
        if self._earlier[followed.line] > 0:
            self._earlier[followed.line] -= 1
            return False
        return True

    def keep(self, lines: Sequence[Followed]) -> None:
        """Record lines that the record lacks, and report those that could not be recorded."""
        self._unkept.extend(self._writer.add(one for one in lines if self._is_new(one)))
        self._tell_lost(LOST_FACTOR)

    def _tell_lost(self, factor: int) -> None:
        """Report lines that the record lacks: at once, and again when there are more by a factor."""
        if self._writer.lost > self._told_lost and self._writer.lost >= factor * self._told_lost:
            self._told_lost = lost = self._writer.lost
            text = f"the record on this machine is incomplete (lines lost so far: {lost:,}): {self._writer.trouble}"
            self.notices.append(text)

    def _changed(self, job: TFJob | None) -> None:
        if job is not None:
            self.job = job
            self._writer.keep(job)
            self._on_change()

    async def _follow_events(self, backend: KubeBackend) -> None:
        selector = f"involvedObject.uid={self.record.uid}"
        namespace = self.record.job.metadata.namespace
        try:
            await backend.client.list(CORE_EVENTS, namespace, field_selector=selector, type=dict)
        except Forbidden:
            return
        store: ObjectStore[KubeEvent] = ObjectStore(on_change=self._happened)
        await Reflector(backend.client, CORE_EVENTS, _decode_event, store, namespace, field_selector=selector).run()

    def _happened(self, old: KubeEvent | None, new: KubeEvent | None) -> None:
        is_old = self.tail is not None and new is not None and new.last is not None and new.last < self._begun
        if old is None and new is not None and not is_old:
            self.news.append((datetime.now(UTC), Event(new.reason, new.message, warning=new.type == "Warning")))
            self._on_change()

    async def _measure(self, backend: KubeBackend) -> None:
        while True:
            with suppress(Unreachable, ApiError):
                usage = await usage_by_pod(backend.client, self.job)
                if usage is None:
                    return
                self._usage = usage
            await asyncio.sleep(backend.client.durations.usage.total_seconds())

    async def _report_unseen(self) -> None:
        durations = self._backend.client.durations
        await asyncio.sleep((durations.unseen + durations.look).total_seconds())
        if is_unseen(self.job, datetime.now(UTC), durations.unseen):
            self.notices.append(NOT_PICKED_UP.format(self.record.options))
            self._on_change()


class FollowedJobs:
    """Jobs of a cluster while this process follows them."""

    detaches = True

    def __init__(self, backend: SyncKubeBackend, records: Sequence[Record], tail: int | None = None) -> None:
        self.backend = backend
        self.is_view = tail is not None
        self.jobs = [FollowedJob(backend.backend, record, tail) for record in records]
        self._following: asyncio.Task[None] | None = None

    async def run(self, on_change: Callable[[], None], *, measure: bool) -> None:
        """Follow all jobs until they end, or until `stop`; call `on_change` when something has changed."""
        self._following = asyncio.create_task(self._follow(on_change, measure=measure))
        with suppress(asyncio.CancelledError):
            await self._following

    async def _follow(self, on_change: Callable[[], None], *, measure: bool) -> None:
        # With new connections, because this runs in the caller's thread, which handles signals, and not in the portal.
        async with self.backend.backend.reconnect() as here:
            await asyncio.gather(*(job.follow(here, on_change, measure=measure) for job in self.jobs))

    def stop(self) -> float:
        """Stop following; no replica is killed."""
        if self._following is not None:
            self._following.cancel()
        return 0.0

    def kill(self) -> None:
        """Do nothing: the jobs continue."""

    def results(self) -> list[Record]:
        left = (self.backend.refresh(job.record) for job in self.jobs)
        return [record for record in left if record is not None]
