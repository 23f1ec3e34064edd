"""Attached views of jobs that a background process drives on this machine; the jobs continue without the view."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tfjob.controller.actions import Event, RecordedEvent
from tfjob.jobs.backend import Record
from tfjob.jobs.sync_backend import SyncBackend
from tfjob.launch.drive import MachineJob
from tfjob.local.jobs import runs
from tfjob.local.jobs.backend import LOOK_SECONDS, LocalBackend
from tfjob.records.log_reader import POLL


class WatchedJobs:
    """One job while this process shows it; its driver is another process."""

    detaches = True
    is_view = True

    def __init__(self, backend: SyncBackend[LocalBackend], record: Record, tail: int) -> None:
        self.backend = backend
        self._store = backend.backend.store
        run = runs.find_run(self._store, record.id, record.namespace)
        self._job = MachineJob(backend.backend.home, run, f"attached to {record.id}")
        self._job.tail = tail
        self.jobs = [self._job]
        self._events = self._store.events(record.uid)
        self._stopped = asyncio.Event()

    async def run(self, on_change: Callable[[], None], *, measure: bool) -> None:
        """Follow the job until nothing is left to do for it, or until `stop`."""
        looks = 0
        while not (self._stopped.is_set() or self._is_over()):
            if looks % round(LOOK_SECONDS / POLL) == 0:
                await self.backend.backend.ensure_driven([self._job.record])
            looks += 1
            self._take_news()
            on_change()
            try:
                async with asyncio.timeout(POLL):
                    await self._stopped.wait()
            except TimeoutError:
                continue
        self._take_news()

    def stop(self) -> float:
        """Stop showing the job; no replica is killed."""
        self._stopped.set()
        return 0.0

    def kill(self) -> None:
        """Do nothing: the job continues."""

    def results(self) -> list[Record]:
        found = self.backend.refresh(self._job.record)
        return [] if found is None or not (found.current or found.is_finished) else [found]

    def _is_over(self) -> bool:
        run = self._store.run(self._job.record.uid)
        return run is None or runs.is_at_rest(self._store, run)

    def _take_news(self) -> None:
        known, self._events = self._events, self._store.events(self._job.record.uid)
        first = max(0, len(known) - 1)  # the count of the last event may have grown
        for before, event in zip([*known[first:], *[None] * len(self._events)], self._events[first:], strict=False):
            if before is None or event.count > before.count:
                self._job.news.append((event.last, _event(event)))


def _event(recorded: RecordedEvent) -> Event:
    return Event(recorded.reason, recorded.message, warning=recorded.warning)
