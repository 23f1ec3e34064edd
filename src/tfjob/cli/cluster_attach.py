"""An attached run on a cluster: this process shows what the jobs say and keeps it; they go on without it."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from tfjob.api.types import TFJob
from tfjob.cli import outcome
from tfjob.cli.cluster_creation import created, tell_it_goes_on
from tfjob.cli.display import Display, level
from tfjob.cli.starting import ended
from tfjob.cli.troubles import show_outages
from tfjob.controller.console import Record
from tfjob.kube.client import Client
from tfjob.kube.console import KubeConsole
from tfjob.kube.errors import Forbidden, KubeError
from tfjob.kube.follower import Follower
from tfjob.kube.job_events import KubeEvent
from tfjob.kube.job_records import JobRecords, RecordWriter
from tfjob.kube.job_states import PATIENCE, is_unseen
from tfjob.kube.reflector import Reflector
from tfjob.kube.resources import CORE_EVENTS
from tfjob.kube.store import Store
from tfjob.kube.submission import Submission
from tfjob.plan.actions import News

MOMENT_SECONDS = 1.0

_decode_event = msgspec.json.Decoder(KubeEvent).decode


def attach(console: KubeConsole, submission: Submission, output: str) -> int:
    """Creates the jobs, shows their logs, and ends with the worst of their exit codes; Ctrl-C only detaches."""
    records, detached = created(console, submission)
    left = records
    try:
        if not detached:
            detached = console.run(_follow_all(console.client, records, console.records, quiet=output == "json"))
            left = [record for record in map(console.again, records) if record is not None]
    except KeyboardInterrupt:
        detached = True  # before anybody listened for it, or after
    except KubeError:
        tell_it_goes_on(records)  # whatever keeps us from following it
        raise
    if not detached:
        return ended([record.name for record in records], left, output)
    tell_it_goes_on(left)
    return outcome.INTERRUPTED


async def _follow_all(client: Client, records: list[Record], kept: JobRecords, *, quiet: bool) -> bool:
    """Follows jobs until all are over; returns whether somebody ended that sooner."""
    runs = [_Attached(client, record, kept, several=len(records) > 1, quiet=quiet) for record in records]
    level([run.display for run in runs])
    show_outages(lambda text: runs[0].display.say(text, warning=True))
    detached = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, detached.set)
    following = asyncio.gather(*(run.follow() for run in runs))
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
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)


class _Attached:
    """One job, shown and kept."""

    def __init__(self, client: Client, record: Record, kept: JobRecords, *, several: bool, quiet: bool) -> None:
        self._client = client
        self._record = record
        self._quiet = quiet
        self._writer: RecordWriter = kept.begin(record.job)
        self.display = Display(record.job, str(self._writer.folder), several=several)

    async def follow(self) -> None:
        """Shows and keeps everything until the job is over."""
        if not self._quiet:
            where = self._client.access.context
            self.display.begin(f"on {where}" if where else "on the cluster")
        beside = [asyncio.create_task(self._tell_news()), asyncio.create_task(self._tell_unseen())]
        try:
            async with Follower(self._client, self._record.job, on_job=self._changed) as follower:
                async for lines in follower.lines():
                    for line, run in lines:
                        self._writer.add(line, run)
                        if not self._quiet:
                            self.display.line(line)
                    self._writer.flush()
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            self._writer.close()
            if self._writer.trouble:
                self.display.say(f"not all of it was kept here: {self._writer.trouble}", warning=True)

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
        store: Store[KubeEvent] = Store(on_change=self._happened)
        await Reflector(self._client, CORE_EVENTS, _decode_event, store, namespace, field_selector=selector).run()

    def _happened(self, old: KubeEvent | None, new: KubeEvent | None) -> None:
        if old is None and new is not None and not self._quiet:
            self.display.news(News(new.reason, new.message, warning=new.type == "Warning"))

    async def _tell_unseen(self) -> None:
        """Says that nobody looks after the job, once."""
        self._job = self._record.job
        await asyncio.sleep(PATIENCE.total_seconds() + MOMENT_SECONDS)
        if is_unseen(self._job, datetime.now(UTC)):
            hint = f"is one running? tfjob doctor{self._record.options}"
            self.display.say(f"no operator has looked at it; {hint}", warning=True)
