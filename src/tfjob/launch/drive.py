"""Attached runs on this machine: this process drives the jobs, and they end with it.

with attach(prepared) as attached:
    await attached.run(on_change)
    records = attached.results()
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property

from tfjob.api.objects import Deployment, Pod
from tfjob.api.types import TFJob
from tfjob.controller.actions import Event
from tfjob.durations import durations_from
from tfjob.jobs.backend import Line, Record, Replica
from tfjob.jobs.progress import Snapshot
from tfjob.jobs.replicas import replica_name
from tfjob.jobs.sync_backend import SyncBackend
from tfjob.kinds import machine_kinds
from tfjob.launch.local import LocalJobs, open_machine, submit
from tfjob.local.jobs.backend import LocalBackend, record, sync_backend
from tfjob.local.jobs.meter import Meter
from tfjob.local.jobs.replica_states import replicas
from tfjob.local.jobs.runs import owner_of
from tfjob.local.run.driver import Driver
from tfjob.local.run.lifetime import Started
from tfjob.local.run.pod_folder import pod_folder
from tfjob.local.state.home import Home
from tfjob.local.state.store import Run, Store, open_store


@contextmanager
def attach(prepared: LocalJobs) -> Iterator[DrivenJobs]:
    """Store the jobs, all or none, for this process to drive."""
    with open_machine(write=True) as (home, store):
        yield DrivenJobs(home, store, submit(home, store, prepared.submissions, attached=True))


class MachineJob:
    """One job of this machine, as an `AttachedJob`."""

    tail: int | None = None

    def __init__(self, home: Home, run: Run, opening: str) -> None:
        self.record = record(run)
        self.folder = run.folder
        self.opening = opening
        self.news: deque[tuple[datetime, Event]] = deque()
        self.notices: deque[str] = deque()
        self.found: Sequence[Event] = ()
        self._home = home
        self._run = run
        self._meter = Meter()
        self._version: list[str] = []
        self._known: list[Replica] = []

    @property
    def job(self) -> TFJob | Deployment:
        return owner_of(self._present())

    def add_event(self, event: Event) -> None:
        self.news.append((datetime.now(UTC), event))

    def unkept(self) -> list[Line]:
        return []

    def snapshot(self) -> Snapshot:
        run = self._present()
        pods = self._store.children(Pod, run.uid)
        running = {replica_name(pod): pod for pod in pods if pod.status.phase == "Running"}
        usage = self._meter.measure({name: pod_folder(run.folder, pod) for name, pod in running.items()})
        return Snapshot(record(run), self._replicas(run, pods), usage)

    def _replicas(self, run: Run, pods: Sequence[Pod]) -> list[Replica]:
        """Return the replicas; read them again only if the job or a pod has changed."""
        version = [run.stored.metadata.resource_version, *(pod.metadata.resource_version for pod in pods)]
        if version != self._version:
            self._version, self._known = version, replicas(self._store, run)
        return self._known

    def _present(self) -> Run:
        return self._store.run(self._run.uid) or self._run

    @cached_property
    def _store(self) -> Store:
        """A separate connection, for the thread that shows the job."""
        return open_store(self._home.database, write=False)


class DrivenJobs:
    """The jobs of a request while this process drives them."""

    detaches = False
    is_view = False
    """Whether this process only shows jobs that it did not start."""

    def __init__(self, home: Home, store: Store, started: Sequence[Started]) -> None:
        self.jobs = [MachineJob(home, one.run, f"starting as {one.run.id}") for one in started]
        for job in self.jobs:
            events = store.events(job.record.uid)
            job.found = [Event(one.reason, one.message, warning=one.warning) for one in events]
        self.backend: SyncBackend[LocalBackend] = sync_backend(home, store)
        self._store = store
        kinds = machine_kinds(durations_from(os.environ))
        # A connection per driver, because a connection reports each change only once.
        self._drivers = [
            Driver(
                home,
                open_store(home.database),
                one.run,
                kinds,
                attached=True,
                lock=one.lock,
                on_news=job.add_event,
            )
            for one, job in zip(started, self.jobs, strict=True)
        ]

    async def run(self, on_change: Callable[[], None], *, measure: bool) -> None:
        """Drive all jobs until they are settled; call `on_change` whenever something may have changed."""
        try:
            await asyncio.gather(*(driver.drive(on_change) for driver in self._drivers))
        finally:
            for driver in self._drivers:
                driver.store.close()

    def stop(self) -> float:
        """Stop all jobs; return the seconds after which replicas that still run are killed."""
        return max(driver.stop() for driver in self._drivers)

    def kill(self) -> None:
        """Kill all replicas that are stopping."""
        for driver in self._drivers:
            driver.kill()

    def results(self) -> list[Record]:
        runs = (self._store.run(job.record.uid) for job in self.jobs)
        left = (record(run) for run in runs if run is not None)
        return [one for one in left if one.current or one.is_finished]
