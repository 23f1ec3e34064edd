"""The Python client for asynchronous code: the members of `tfjob.Client` and `tfjob.Job` as coroutines.

async with aio.Client() as client:
    await (await client.submit("mnist.yaml")).wait()
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Self, TypedDict, Unpack

from tfjob.api.problems import Problem
from tfjob.api.types import Verdict
from tfjob.controller.actions import RecordedEvent
from tfjob.controller.kind import STOPPED
from tfjob.errors import InvalidRequest
from tfjob.jobs.backend import Backend, Line, LogQuery, NotFound, Record, Replica
from tfjob.launch import start
from tfjob.launch.request import Request, request_of
from tfjob.launch.target import connect, parse_target

LONGEST_PAUSE = 60.0
OVER = ("Succeeded", "Failed", "Suspended")
"""The states that end a wait."""


class Options(TypedDict, total=False):
    """The options of `tfjob run`."""

    name: str
    parameters: Mapping[str, object]
    workers: int
    ps: int
    chief: bool
    evaluator: int
    image: str
    in_image: bool
    arguments: list[str]
    python: str
    volumes: Mapping[str, str | Path]
    level: str
    no_limits: bool
    cpu: bool
    warm: bool
    share_storage: bool


class LogOptions(TypedDict, total=False):
    """Which lines to read: the last ones, those since a time, and future ones."""

    tail: int
    since: timedelta | datetime
    follow: bool


@dataclass(frozen=True)
class Status:
    """The state of a job; `failure` says why it failed, and `ready` counts replicas (`2/3`)."""

    state: str
    reason: str
    message: str
    ready: str
    restarts: int
    started: datetime | None
    completed: datetime | None
    failure: Verdict | None


class JobFailed(Exception):
    """The job failed; `verdict` names the replica that failed first, how it ended, its last lines, and what to do."""

    def __init__(self, name: str, verdict: Verdict) -> None:
        advice = f". {verdict.advice}" if verdict.advice else ""
        super().__init__(f"{name} failed: {verdict.message}{advice}")
        self.name = name
        self.verdict = verdict


class Client:
    """The methods of `tfjob.Client` as coroutines, within `async with`."""

    def __init__(self, on: str = "local", namespace: str = "") -> None:
        self._target = parse_target(on)
        self._namespace = namespace
        self._opened = AsyncExitStack()
        self._backend: Backend | None = None

    async def __aenter__(self) -> Self:
        self._backend = await self._opened.enter_async_context(connect(self._target, self._namespace))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._backend = None
        await self._opened.aclose()

    @property
    def backend(self) -> Backend:
        if self._backend is None:
            raise RuntimeError("the client is not open: use it within `async with`")
        return self._backend

    async def run(
        self,
        file: str | Path,
        *,
        on_line: Callable[[Line], object] | None = None,
        timeout: float | None = None,
        **options: Unpack[Options],
    ) -> Job:
        job = await self.submit(file, **options)
        try:
            async with asyncio.timeout(timeout):
                if on_line is not None:
                    async for line in job.logs(follow=True):
                        on_line(line)
                await job.wait()
        except (asyncio.CancelledError, TimeoutError):
            await job.stop()
            raise
        return job

    async def submit(self, file: str | Path, **options: Unpack[Options]) -> Job:
        return (await self.submit_all(file, **options))[0]

    async def submit_all(self, file: str | Path, **options: Unpack[Options]) -> list[Job]:
        return [Job(self, one) for one in await asyncio.to_thread(start.submit, self._request(file, options))]

    async def check(self, file: str | Path, **options: Unpack[Options]) -> list[Problem]:
        return (await asyncio.to_thread(start.check, self._request(file, options)))[0]

    async def jobs(self) -> list[Job]:
        return [Job(self, record) for record in await self.backend.jobs()]

    async def job(self, name: str) -> Job:
        return Job(self, await self.backend.find(name))

    def _request(self, file: str | Path, options: Options) -> Request:
        return request_of(str(file), self._namespace, self._target, options)


class Job:
    """The members of `tfjob.Job`, as coroutines where they read or change state."""

    def __init__(self, client: Client, record: Record) -> None:
        self.name = record.name
        self.namespace = record.namespace
        self.id = record.id
        self._client = client
        self._record = record

    def __repr__(self) -> str:
        return f"<Job {self.id}>"

    async def status(self) -> Status:
        return _status(await self._refresh())

    async def failure(self) -> Verdict | None:
        return (await self.status()).failure

    async def replicas(self) -> list[Replica]:
        return await self._client.backend.replicas(self._record)

    async def events(self) -> list[RecordedEvent]:
        return await self._client.backend.events(self._record)

    async def logs(self, replica: str | None = None, **wanted: Unpack[LogOptions]) -> AsyncGenerator[Line, None]:
        since = wanted.get("since")
        moment = datetime.now().astimezone() - since if isinstance(since, timedelta) else since
        query = LogQuery(replica, wanted.get("tail"), moment, follow=wanted.get("follow", False))
        await self._client.backend.ensure_driven([self._record])
        batches = self._client.backend.logs(self._record, query)
        try:
            async for batch in batches:
                for line in batch:
                    yield line
        finally:
            await batches.aclose()

    async def wait(self, timeout: float | None = None) -> Status:
        backend = self._client.backend
        async with asyncio.timeout(timeout):
            while True:
                (record,) = await backend.ensure_driven([await self._refresh()])
                if record.state in OVER:
                    break
                await backend.pause([record], LONGEST_PAUSE)
        status = _status(record)
        if status.failure is not None and status.state == "Failed":
            raise JobFailed(self.id, status.failure)
        return status

    async def stop(self) -> None:
        await self.suspend(STOPPED)

    async def suspend(self, reason: str = "Suspended") -> None:
        self._record = await self._client.backend.suspend(await self._unfinished(), reason)
        await self._client.backend.wait_until_stopped(self._record)

    async def resume(self) -> None:
        self._record = await self._client.backend.resume(await self._refresh())

    async def scale(self, **replicas: int) -> None:
        from tfjob.jobs.scale import scaled  # late, because importing validation is slow

        record = await self._unfinished()
        scaled(record.object, replicas)  # reject invalid counts before anything is sent
        self._record = await self._client.backend.change(record, lambda job: scaled(job, replicas))

    async def delete(self) -> None:
        await self._client.backend.delete(await self._refresh())

    async def _unfinished(self) -> Record:
        record = await self._refresh()
        if record.is_finished:
            raise InvalidRequest(f"{self.id} has already ended: its state is {record.state}")
        return record

    async def _refresh(self) -> Record:
        if (found := await self._client.backend.refresh(self._record)) is None:
            raise NotFound(f"{self.id} was deleted")
        self._record = found
        return found


def _status(record: Record) -> Status:
    status = record.status
    times = status.start_time, status.completion_time
    return Status(record.state, record.reason, status.message, status.ready, status.restarts, *times, status.failure)
