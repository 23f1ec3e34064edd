"""The logs of a job from all sources: its pods, the record of an attached run, the last lines in its status."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime

from tfjob.api.objects import Pod
from tfjob.api.types import TFJob, Verdict
from tfjob.jobs.backend import Line, LogQuery
from tfjob.kube.client.client import Client
from tfjob.kube.jobs.container_logs import Container, containers_of, pods_of, read
from tfjob.kube.jobs.follower import Follower
from tfjob.records import log_reader
from tfjob.records.job_records import JobRecord, JobRecords
from tfjob.records.log_reader import choose


class JobLogs:
    """The logs of one job."""

    def __init__(self, client: Client, job: TFJob, records: JobRecords) -> None:
        self._client = client
        self._job = job
        self._record: JobRecord | None = records.of(job)

    async def labels(self, replica: str | None, *, gone: bool) -> list[str]:
        """Return the labels of the available logs that `replica` selects."""
        started = [container.label for container in await self._containers(replica, gone=gone) if container.has_log]
        kept = self._record.runs(replica) if self._record else ()
        ended = [end.replica for previous in (True, False) for end in self._ends(replica, previous=previous)]
        return list(dict.fromkeys([*started, *kept, *ended]))

    def read(self, query: LogQuery, *, gone: bool) -> AsyncGenerator[list[Line], None]:
        """Yield lines in batches; `gone` means that the job no longer exists."""
        return self._follow(query) if query.follow and not gone else self._read(query, gone=gone)

    async def _read(self, query: LogQuery, *, gone: bool) -> AsyncGenerator[list[Line], None]:
        containers = await self._containers(query.replica, gone=gone)
        present = [one for one in containers if (one.restarts > 0 if query.previous else one.has_log)]
        there = {one.label for one in present}
        unreadable: set[str] = set()
        kept = self._kept(query, there, containers)
        async with aclosing(read(self._client, present, query, kept, unreadable)) as batches:
            async for batch in batches:
                yield batch
        if unreadable:
            elsewhere = set(await self.labels(query.replica, gone=gone)) - unreadable
            yield self._kept(query, elsewhere, containers)

    async def _follow(self, query: LogQuery) -> AsyncGenerator[list[Line], None]:
        containers = await self._containers(query.replica, gone=False)
        yield self._kept(query, {container.label for container in containers if container.has_log}, containers)
        async with Follower(self._client, self._job, query) as follower:
            async for batch in follower.lines():
                yield [followed.line for followed in batch]

    async def _containers(self, replica: str | None, *, gone: bool) -> list[Container]:
        pods: list[Pod] = [] if gone else await pods_of(self._client, self._job)
        return containers_of(pods, replica)

    def _kept(self, query: LogQuery, present: set[str], containers: list[Container]) -> list[Line]:
        """Return lines of containers that no pod has lines of: from the record, else the last lines in the status."""
        lines: list[Line] = []
        if self._record is not None:
            runs = {label: known for label, known in self._record.runs(query.replica).items() if label not in present}
            for container in containers:
                # The existing container is the newest run, recorded or not.
                known = runs.get(container.label, [])
                if known and container.run.folder(self._record.folder) not in known:
                    known.append(None)
            lines += log_reader.read(choose(runs, previous=query.previous), tail=query.tail, since=query.since)
        shown = {line.replica for line in lines} | present
        for verdict in self._ends(query.replica, previous=query.previous):
            if verdict.replica not in shown:
                lines += _last_lines(verdict)
        return sorted(lines, key=lambda line: line.time)

    def _ends(self, replica: str | None, *, previous: bool) -> list[Verdict]:
        """Return the failure whose last lines the status keeps: of the previous attempt, or of the job."""
        status = self._job.status
        end = (status.last_restart and status.last_restart.cause) if previous else status.failure
        if not (end and end.last_lines and end.replica):
            return []
        return [end] if replica in (None, end.replica, end.replica.partition("/")[0]) else []


def _last_lines(verdict: Verdict) -> list[Line]:
    label = verdict.replica
    time = verdict.time or datetime.fromtimestamp(0, UTC)
    attempt = f" of attempt {verdict.attempt}" if verdict.attempt else ""
    head = f"[tfjob: the log{attempt} no longer exists; the job's status kept these last lines]"
    return [Line(time, label, head, notice=True), *(Line(time, label, text) for text in verdict.last_lines)]
