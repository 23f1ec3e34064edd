"""The jobs of this machine as the commands see them: the store, the logs on disk, and the drivers of runs."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from tfjob.api.objects import Pod
from tfjob.api.types import TFJob
from tfjob.controller.actions import RecordedEvent
from tfjob.controller.kind import INTERRUPTED, SUSPEND_REASON
from tfjob.jobs.backend import Board, Line, LogQuery, NotFound, Record, Replica, is_suspended, summary
from tfjob.jobs.replicas import container_names, replica_name
from tfjob.jobs.sync_backend import Inline, SyncBackend
from tfjob.local.jobs import runs
from tfjob.local.run.driver_lock import DRIVER_LOG, is_driven, needs_driver, start_background
from tfjob.local.state.database import is_disk_full
from tfjob.local.state.errors import Refusal
from tfjob.local.state.home import Home, boot_id
from tfjob.local.state.store import Run, Store, marked_for_deletion, open_state
from tfjob.plan.facts.conditions import SUSPENDED, is_finished
from tfjob.plan.facts.tasks import desired
from tfjob.plan.policy.run_policy import RESUMING

if TYPE_CHECKING:
    from pathlib import Path

    from tfjob.jobs.port_forward import Forwarded, ForwardRequest

Sleep = Callable[[float], Awaitable[None]]
"""All that methods wait for: `asyncio.sleep`, or `Inline.sleep` without an event loop."""

DEFAULT_NAMESPACE = "default"
BATCH = 1000
"""Lines of a log that are yielded together."""
STEP_SECONDS = 0.1
MOST_DRIVERS = 5
"""Drivers that a command starts for a run before it gives up."""
LOOK_SECONDS = 0.5
"""Seconds between checks for new attempts while logs are followed."""


class DriverFailed(Refusal):
    """Every driver of a run ended before its work was done."""

    def __init__(self, run: Run) -> None:
        log = run.root_folder / DRIVER_LOG
        last = log.read_text(errors="replace").strip().rpartition("\n")[2] if log.exists() else ""
        super().__init__(f"the driver of {run.id} failed {MOST_DRIVERS} times: {last}", f"See {log}.")


class LocalBackend:
    """The jobs of one state folder."""

    options = ""
    shared = False

    def __init__(self, home: Home, store: Store, sleep: Sleep, namespace: str = "") -> None:
        """Look up names in `namespace`; without one, use `default`, and take `@latest` from all namespaces."""
        self.home = home
        self.store = store
        self._sleep = sleep
        self.namespace = namespace or DEFAULT_NAMESPACE
        self._anywhere = not namespace

    async def jobs(self, *, everything: bool = False, all_namespaces: bool = False) -> list[Record]:
        namespace = None if all_namespaces else self.namespace
        return [record(run) for run in runs.list_runs(self.store, namespace, everything=everything)]

    async def find(self, name: str) -> Record:
        return record(runs.find_run(self.store, name, self.namespace, latest_of_all=self._anywhere))

    async def refresh(self, record_: Record) -> Record | None:
        run = self.store.run(record_.uid)
        return None if run is None else record(run)

    async def ensure_driven(self, records: Sequence[Record]) -> list[Record]:
        """Start background drivers; jobs are shown even if a driver cannot start or could not record anything."""
        if not self.store.writable or is_disk_full(self.home.database):
            return list(records)
        unsettled = {run.uid: run for run in self.store.unsettled()}
        known = [unsettled[one.uid] for one in records if one.uid in unsettled]
        for run in known:
            with suppress(OSError, sqlite3.Error):
                runs.ensure_driven(self.home, self.store, run)
        return [(await self.refresh(one) or one) if one.uid in unsettled else one for one in records]

    async def pause(self, records: Sequence[Record], seconds: float) -> None:
        await self._sleep(min(seconds, STEP_SECONDS))

    async def replicas(self, record_: Record) -> list[Replica]:
        from tfjob.local.jobs.replica_states import replicas

        return replicas(self.store, self._run(record_))

    async def events(self, record_: Record) -> list[RecordedEvent]:
        return self.store.events(record_.uid)

    async def storage(self, record_: Record) -> str:
        if not isinstance(record_.object, TFJob):
            return ""
        from tfjob.local.pod.machine import machine_of
        from tfjob.local.volumes.job_storage import folder_of
        from tfjob.plan.build.job_storage import storage_of

        try:
            machine = machine_of(self.home, self.store, self._run(record_))
        except (OSError, msgspec.DecodeError, Refusal):
            return ""  # the user removed the record or broke the configuration
        mapping = {**machine.config.volumes, **machine.volumes}
        storage = storage_of(record_.job, for_all=True) or ({}, {})
        return str(folder_of(storage, record_.namespace, machine.claims, mapping) or "")

    async def log_labels(self, record_: Record, replica: str | None = None) -> list[str]:
        from tfjob.records.log_reader import runs_of

        run = self._run(record_)
        return list(runs_of(runs.owner_of(run), run.folder, replica))

    def logs(self, record_: Record, query: LogQuery) -> AsyncGenerator[list[Line], None]:
        return self.merged_logs({"": record_}, query)

    def merged_logs(self, records: Mapping[str, Record], query: LogQuery) -> AsyncGenerator[list[Line], None]:
        return self._follow(records, query) if query.follow else self._read(records, query)

    async def _read(self, records: Mapping[str, Record], query: LogQuery) -> AsyncGenerator[list[Line], None]:
        from tfjob.records.log_reader import choose, read, runs_of

        chosen: dict[str, Path] = {}
        for key, record_ in records.items():
            run = self._run(record_)
            folders = choose(runs_of(runs.owner_of(run), run.folder, query.replica), previous=query.previous)
            chosen |= {key + label: folder for label, folder in folders.items()}
        kept = read(chosen, tail=query.tail, since=query.since)
        while batch := list(islice(kept, BATCH)):
            yield batch
            await self._sleep(0)

    async def documents(self, record_: Record) -> dict[str, Any]:
        pods = self.store.children(Pod, record_.uid)
        return {"job.yaml": msgspec.to_builtins(record_.object), "pods.yaml": msgspec.to_builtins(pods)}

    async def change(self, record_: Record, change: Callable[[Any], Any]) -> Record:
        runs.edit_owner(self.store, self._run(record_), change)
        (changed,) = await self.ensure_driven([await self.refresh(record_) or record_])
        return changed

    async def wait_until_stopped(self, record_: Record) -> None:
        await self._drive_until_settled(record_.uid)

    async def suspend(self, record_: Record, reason: str) -> Record:
        return await self.change(record_, lambda job: runs.suspended(job, reason))

    async def resume(self, record_: Record) -> Record:
        run = self._run(record_)
        while run.root == run.uid and is_driven(run):  # its earlier work must end first
            await self._sleep(STEP_SECONDS)
        self.store.set_attached(run.root, attached=False, boot=boot_id())
        runs.edit_owner(self.store, run, runs.resumed)
        start_background(self.home, run)
        return await self.refresh(record_) or record_

    async def request_deletion(self, record_: Record) -> None:
        run = self._run(record_)
        if run.current and needs_driver(run):
            self.store.update(run.uid, marked_for_deletion)
            runs.ensure_driven(self.home, self.store, run)

    async def delete(self, record_: Record) -> None:
        from tfjob.local.run.lifetime import remove_run

        run = self._run(record_)
        if run.current and needs_driver(run):
            self.store.update(run.uid, marked_for_deletion)
            with suppress(DriverFailed):  # remove_run also works without a driver
                await self._drive_until_settled(record_.uid)
        while run.root == run.uid and is_driven(run):
            await self._sleep(STEP_SECONDS)
        remove_run(self.store, run)

    async def running(self, record_: Record) -> dict[str, list[str]]:
        return {
            replica_name(pod): container_names(pod.spec)
            for pod in self.store.children(Pod, record_.uid)
            if pod.status.phase == "Running"
        }

    async def execute(self, record_: Record, replica: str, container: str, command: Sequence[str], *, tty: bool) -> int:
        from tfjob.local.run.pod_folder import pod_folder
        from tfjob.local.sandbox.exec import NotRunningError, exec_in

        run = self._run(record_)
        pods = {replica_name(pod): pod for pod in self.store.children(Pod, record_.uid)}
        try:
            return exec_in(pod_folder(run.folder, pods[replica]), container, list(command), tty=tty)
        except NotRunningError as error:
            raise NotFound(str(error)) from None

    async def tensorboard(
        self, records: Sequence[Record], port: int | None, ready: Callable[[Sequence[Board]], None], log_dir: str = ""
    ) -> None:
        """Start one TensorBoard for all jobs, in addition to that of a driver, which ends with its run."""
        from tfjob.local.jobs import tensorboard
        from tfjob.local.pod.machine import machine_of

        names = [record_.name for record_ in records]
        views: dict[str, tensorboard.TensorBoardView] = {}
        for record_ in records:
            run = self._run(record_)
            # Runs of the same job are shown by id.
            name = record_.name if names.count(record_.name) == 1 else record_.id
            views[name] = tensorboard.view(run, machine_of(self.home, self.store, run), log_dir)
        tensorboard.show(views, port, ready)

    async def port_forward(
        self, request: ForwardRequest, ready: Callable[[Sequence[Forwarded]], None], warn: Callable[[str], None]
    ) -> None:
        from tfjob.jobs.port_forward import forward
        from tfjob.local.jobs.port_forward import LocalPlace

        await forward(LocalPlace(self.store, self.namespace, self.find), request, ready, warn)

    def _run(self, record_: Record) -> Run:
        run = self.store.run(record_.uid)
        # If another process has just removed the run, runs.find_run reports that it does not exist.
        return run or runs.find_run(self.store, record_.id, record_.namespace)

    async def _drive_until_settled(self, uid: str) -> None:
        started = 0
        while (run := self.store.run(uid)) is not None and not runs.is_at_rest(self.store, run):
            if started == MOST_DRIVERS and not is_driven(run):
                raise DriverFailed(run)
            started += runs.ensure_driven(self.home, self.store, run)
            await self._sleep(STEP_SECONDS)

    async def _follow(self, records: Mapping[str, Record], query: LogQuery) -> AsyncGenerator[list[Line], None]:
        from tfjob.records.log_reader import POLL, Follower, Source, sources_of

        followed = {key: self._run(record_) for key, record_ in records.items()}

        def sources() -> Iterator[Source]:
            for key, run in followed.items():
                for label, folder in sources_of(runs.owner_of(run), run.folder, query.replica):
                    yield Source(key + label, folder)

        with Follower(sources(), tail=query.tail, since=query.since) as follower:
            next_look = 0.0
            while True:
                present = [self.store.run(run.uid) for run in followed.values()]
                over = all(run is None or runs.is_at_rest(self.store, run) for run in present)
                if over or time.monotonic() >= next_look:
                    next_look = time.monotonic() + LOOK_SECONDS
                    for source in sources():
                        follower.add(source)
                    yield []
                if lines := follower.poll():
                    yield lines
                if over:
                    break
                await self._sleep(POLL)
            yield follower.finish()


@contextmanager
def open_backend(home: Home, namespace: str, *, write: bool) -> Iterator[SyncBackend[LocalBackend]]:
    with open_state(home, write=write) as (_, store):
        yield sync_backend(home, store, namespace)


def sync_backend(home: Home, store: Store, namespace: str = "") -> SyncBackend[LocalBackend]:
    """Return the synchronous form of a backend; without asyncio, because loading it would slow down every command."""
    return SyncBackend(Inline(), LocalBackend(home, store, Inline.sleep, namespace))


@asynccontextmanager
async def connect(home: Home, namespace: str, *, write: bool) -> AsyncIterator[LocalBackend]:
    import asyncio

    with open_state(home, write=write) as (_, store):
        yield LocalBackend(home, store, asyncio.sleep, namespace)


def record(run: Run) -> Record:
    """Return a run as commands show it; an interrupted run is runs.suspended, whatever its status says."""
    owner = runs.owner_of(run)
    status = summary(owner)
    state, reason = status.state or "Pending", status.reason
    if runs.is_cut_off(run):
        state, reason = SUSPENDED, INTERRUPTED
    elif is_suspended(owner) and not is_finished(status):
        state, reason = SUSPENDED, owner.metadata.annotations.get(SUSPEND_REASON, SUSPENDED)
    elif state == SUSPENDED and not is_suspended(owner):
        state, reason = "Pending", RESUMING  # not runs.suspended, because `wait` would return
    if (state, reason) == (SUSPENDED, INTERRUPTED):
        # Its replicas ended with the driver, which could not record that.
        if isinstance(owner, TFJob):
            owner = replace(owner, status=replace(owner.status, ready=f"0/{len(desired(owner))}"))
        else:
            owner = replace(owner, status=replace(owner.status, ready_replicas=0))
    return Record(
        object=owner,
        id=run.id,
        state=state,
        reason=reason,
        created=run.created,
        current=run.current,
        attached=run.attached,
        folder=str(run.folder),
        options="" if run.key.namespace == DEFAULT_NAMESPACE else f" -n {run.key.namespace}",
    )
