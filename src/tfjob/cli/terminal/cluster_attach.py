"""An attached run on a cluster: this process shows what the jobs say and keeps it; they go on without it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from tfjob.api.objects import Pod
from tfjob.api.resources import CORE_EVENTS
from tfjob.api.types import TFJob
from tfjob.cli import exit_codes
from tfjob.cli.context import is_quiet
from tfjob.cli.notices import show_outages
from tfjob.cli.terminal.lines import Display, level
from tfjob.cli.terminal.result import report_detached, report_interruption, report_result
from tfjob.cli.terminal.screen import Screen, screen_for
from tfjob.controller.actions import Event
from tfjob.jobs.backend import Line, Record, Usage
from tfjob.jobs.progress import Snapshot
from tfjob.jobs.replicas import replicas
from tfjob.kube.access.errors import ApiError, Forbidden, KubeError, Unreachable
from tfjob.kube.cache.reflector import Reflector
from tfjob.kube.cache.store import ObjectStore
from tfjob.kube.jobs.backend import KubeBackend, SyncKubeBackend
from tfjob.kube.jobs.follower import Follower
from tfjob.kube.jobs.jobs import UNSEEN_PATIENCE, KubeEvent, is_unseen
from tfjob.kube.jobs.metrics import usage_by_pod
from tfjob.launch.cluster import ClusterJobs, submit
from tfjob.plan.facts.tasks import task_of
from tfjob.records.job_records import RecordWriter
from tfjob.records.log_reader import Follower as RecordFollower

MOMENT_SECONDS = 1.0
METRICS_SECONDS = 15.0
"""How often a metrics server measures, as it is installed."""
HINT = "Ctrl-C detaches; the job goes on"

_decode_event = msgspec.json.Decoder(KubeEvent).decode


def attach(backend: SyncKubeBackend, prepared: ClusterJobs, output: str, *, plain: bool) -> int:
    """Create the jobs, show their logs, and return the worst of their exit codes; Ctrl-C only detaches."""
    quiet = output != "text" or is_quiet()
    screen = screen_for(plain=plain or quiet, hint=HINT)
    outcome = submit(backend, prepared)
    report_interruption(outcome, backend)
    left = records = outcome.records
    detached = outcome.interrupted
    try:
        if not detached:
            detached = asyncio.run(_connect_and_follow(backend.backend, records, screen, quiet=quiet))
            left = [record for record in map(backend.refresh, records) if record is not None]
    except KeyboardInterrupt:
        detached = True  # before anybody listened for it, or after
    except KubeError:
        report_detached(records)  # whatever keeps us from following it
        raise
    if not detached:
        return report_result(backend, [record.name for record in records], left, output, width=screen.width)
    report_detached(left)
    return exit_codes.INTERRUPTED


async def _connect_and_follow(backend: KubeBackend, records: list[Record], screen: Screen, *, quiet: bool) -> bool:
    """Follow jobs in this thread, whose signals the screen handles; so it needs connections of its own."""
    async with backend.reconnect() as here:
        return await _follow_all(here, records, screen, quiet=quiet)


async def _follow_all(backend: KubeBackend, records: list[Record], screen: Screen, *, quiet: bool) -> bool:
    """Follows jobs until all are over; returns whether somebody ended that sooner."""
    runs = [_Attached(backend, record, screen, several=len(records) > 1, quiet=quiet) for record in records]
    level([run.display for run in runs])
    screen.jobs += [run.snapshot for run in runs]
    show_outages(lambda text: runs[0].display.say(text, warning=True))
    detached = asyncio.Event()
    following = True

    def interrupt() -> None:
        if detached.is_set() or not following:
            screen.leave()
        detached.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, interrupt)
    try:
        async with screen:
            try:
                return await _until(detached, [run.follow() for run in runs])
            finally:
                following = False
                if detached.is_set():
                    screen.hurry()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)


async def _until(detached: asyncio.Event, work: Iterable[Coroutine[Any, Any, None]]) -> bool:
    """Does all of the work, or ends it when somebody wants to; returns whether somebody did."""
    following = asyncio.gather(*work)
    leaving = asyncio.create_task(detached.wait())
    try:
        ways: list[asyncio.Future[Any]] = [following, leaving]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        if not detached.is_set():
            following.result()
        return detached.is_set()
    finally:
        leaving.cancel()
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


class _Attached:
    """One job, shown and kept."""

    def __init__(self, backend: KubeBackend, record: Record, screen: Screen, *, several: bool, quiet: bool) -> None:
        self._backend = backend
        self._client = backend.client
        self._record = record
        self._screen = screen
        self._quiet = quiet
        self._job = record.job
        self._pods: Callable[[], list[Pod]] = list
        self._usage: Mapping[str, Usage] = {}
        self._writer: RecordWriter = backend.records.begin(record.job)
        self.display = Display(record.job, screen, several=several)
        screen.kept.append(str(self._writer.folder))

    def snapshot(self) -> Snapshot:
        """How the job stands, for a live view."""
        pods = self._pods()
        stands = replicas(self._job, pods)
        tasks = {pod.metadata.name: task.name for pod in pods if (task := task_of(pod))}
        usage = {tasks[pod]: used for pod, used in self._usage.items() if pod in tasks}
        return Snapshot(self._backend.record(self._job), stands, usage, self.display.doings.look(stands, {}))

    async def follow(self) -> None:
        """Shows and keeps everything until the job is over."""
        if not self._quiet:
            where = self._client.access.context
            self.display.begin(f"on {where}" if where else "on the cluster")
        beside = [asyncio.create_task(work) for work in (self._tell_news(), self._tell_unseen(), self._measure())]
        try:
            async with Follower(self._client, self._record.job, on_job=self._changed) as follower:
                self._pods = lambda: follower.pods
                async for lines in follower.lines():
                    if self._writer.late is None and self.display.is_behind and not self._writer.trouble:
                        self._writer.begin_late()
                    self._writer.add(lines)
                    await self._show([line for line, _ in lines])
            while (late := self._writer.late) is not None and await self.display.has_reader():
                await self._catch_up(late)
        finally:
            self._writer.end_late()
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            if self._writer.trouble:
                self.display.say(f"not all of it was kept here: {self._writer.trouble}", warning=True)

    async def _show(self, lines: list[Line]) -> None:
        """Shows lines; those that nobody reads yet wait in the record, so that it goes on being kept."""
        if self._writer.late is not None:
            await self._catch_up(self._writer.late)
        else:
            for line in lines if not self._quiet else ():
                self.display.line(line)
        if self._writer.trouble:
            await self.display.has_reader()  # what comes next might be kept nowhere

    async def _catch_up(self, late: RecordFollower) -> None:
        """Shows what waits in the record, as far as somebody reads it."""
        while not self.display.is_behind:
            lines = [] if self.display.is_left else late.poll()
            for line in lines:
                self.display.line(line)
            if not lines:
                self._writer.end_late()
                return
            await asyncio.sleep(0)  # the record may be long, and whoever wants to leave is heard

    def _changed(self, job: TFJob | None) -> None:
        if job is None:
            return
        self._record_job(job)
        if not self._quiet:
            self.display.state(job.status)

    def _record_job(self, job: TFJob) -> None:
        self._job = job
        self._writer.keep(job)

    async def _tell_news(self) -> None:
        """Shows the job's own Events, if we may see them."""
        uid = self._record.uid
        selector = f"involvedObject.uid={uid}"
        namespace = self._record.job.metadata.namespace
        try:
            await self._client.list(CORE_EVENTS, namespace, field_selector=selector)
        except Forbidden:
            return
        store: ObjectStore[KubeEvent] = ObjectStore(on_change=self._happened)
        await Reflector(self._client, CORE_EVENTS, _decode_event, store, namespace, field_selector=selector).run()

    def _happened(self, old: KubeEvent | None, new: KubeEvent | None) -> None:
        if old is None and new is not None and not self._quiet:
            self.display.news(Event(new.reason, new.message, warning=new.type == "Warning"))

    async def _measure(self) -> None:
        """Asks what the pods use, for a live view; a cluster that does not serve it is asked once."""
        while self._screen.width:
            with suppress(Unreachable, ApiError):
                usage = await usage_by_pod(self._client, self._job)
                if usage is None:
                    return
                self._usage = usage
            await asyncio.sleep(METRICS_SECONDS)

    async def _tell_unseen(self) -> None:
        """Says that nobody looks after the job, once."""
        await asyncio.sleep(UNSEEN_PATIENCE.total_seconds() + MOMENT_SECONDS)
        if is_unseen(self._job, datetime.now(UTC)):
            hint = f"is one running? tfjob doctor{self._record.options}"
            self.display.say(f"no operator has looked at it; {hint}", warning=True)
