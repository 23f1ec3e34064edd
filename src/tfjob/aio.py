"""Jobs from asynchronous Python: submit, follow and change them, on this machine or on a cluster.

    async with aio.Client() as client:
        job = await client.submit("mnist.yaml")
        async for line in job.logs(follow=True):
            print(line.replica, line.text)
        await job.wait()

`tfjob.Client` offers the same methods to synchronous code.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

from tfjob.api.problems import InvalidManifest, Problem
from tfjob.api.types import Verdict
from tfjob.controller.actions import RecordedEvent
from tfjob.jobs.backend import Backend, Line, LogQuery, NotFound, Record, Replica
from tfjob.launch.errors import InvalidRequest
from tfjob.launch.request import Request, ScriptRequest
from tfjob.launch.target import connect, parse_target
from tfjob.plan.policy.suspension import STOPPED, suspended

LONGEST_PAUSE = 60.0
OVER = ("Succeeded", "Failed", "Suspended")
"""The states that end a wait: nothing happens any more unless someone acts."""


class Options(TypedDict, total=False):
    """What a manifest or a script can be run with; the options of `tfjob run`, with the same meaning."""

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


@dataclass(frozen=True)
class Status:
    """How a job is doing; `failure` says why it failed, and `ready` counts replicas (`2/3`)."""

    state: str
    reason: str
    message: str
    ready: str
    restarts: int
    started: datetime | None
    completed: datetime | None
    failure: Verdict | None


class JobFailed(Exception):
    """The job failed; `verdict` names the replica that failed first, how it ended, and its last lines."""

    def __init__(self, name: str, verdict: Verdict) -> None:
        super().__init__(f"{name} failed: {verdict.message}")
        self.name = name
        self.verdict = verdict


class Client:
    """The jobs of one namespace of this machine (`local`) or of a cluster (`k8s`, `k8s:CONTEXT`)."""

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
        """Submit a job and wait for its end; `on_line` gets each line of output. Raises JobFailed, TimeoutError.

        If this is cancelled or the time is over, the job is stopped.
        """
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
        """Start the job of a manifest or script in the background. Raises InvalidManifest, InvalidRequest."""
        jobs = await self.submit_all(file, **options)
        return jobs[0]

    async def submit_all(self, file: str | Path, **options: Unpack[Options]) -> list[Job]:
        """Start every job of a manifest in the background."""
        records = await asyncio.to_thread(_submit, self._request(file, options))
        return [Job(self, record) for record in records]

    async def check(self, file: str | Path, **options: Unpack[Options]) -> list[Problem]:
        """Return what is wrong with a manifest, or odd about it; nothing is created."""
        return await asyncio.to_thread(_check, self._request(file, options))

    async def jobs(self) -> list[Job]:
        """Return the jobs of the namespace, the newest last."""
        return [Job(self, record) for record in await self.backend.jobs()]

    async def job(self, name: str) -> Job:
        """Return the job of that name, unique prefix, id (`mnist.2`) or `@latest`. Raises NotFound."""
        return Job(self, await self.backend.find(name))

    def _request(self, file: str | Path, options: Options) -> Request:
        given: dict[str, Any] = dict(options)
        known = {field.name for field in fields(ScriptRequest)}
        script = ScriptRequest(**{name: given.pop(name) for name in list(given) if name in known})
        for name in ("parameters", "volumes"):
            given[name] = [f"{key}={value}" for key, value in (given.get(name) or {}).items()]
        return Request(str(file), namespace=self._namespace, script=script, target=self._target, **given)


class Job:
    """One job; its methods ask for the state at the time of the call."""

    def __init__(self, client: Client, record: Record) -> None:
        self._client = client
        self._record = record

    def __repr__(self) -> str:
        return f"<Job {self.id}>"

    @property
    def name(self) -> str:
        return self._record.name

    @property
    def namespace(self) -> str:
        return self._record.job.metadata.namespace

    @property
    def id(self) -> str:
        """The name of this very run, which stays when the job's name is used again: `mnist.2`."""
        return self._record.id

    async def status(self) -> Status:
        return _status(await self._refresh())

    async def failure(self) -> Verdict | None:
        """Return why the job failed; None if it did not."""
        return (await self.status()).failure

    async def replicas(self) -> list[Replica]:
        return await self._client.backend.replicas(self._record)

    async def events(self) -> list[RecordedEvent]:
        return await self._client.backend.events(self._record)

    async def logs(
        self,
        replica: str | None = None,
        *,
        follow: bool = False,
        tail: int | None = None,
        since: timedelta | datetime | None = None,
    ) -> AsyncGenerator[Line, None]:
        """Yield lines of all replicas, of one (`worker-0`) or of one container (`worker-0/sidecar`), by time."""
        moment = datetime.now().astimezone() - since if isinstance(since, timedelta) else since
        query = LogQuery(replica, tail, moment, follow=follow)
        await self._client.backend.ensure_driven([self._record])
        batches = self._client.backend.logs(self._record, query)
        try:
            async for batch in batches:
                for line in batch:
                    yield line
        finally:
            await batches.aclose()

    async def wait(self, timeout: float | None = None) -> Status:
        """Wait until the job has succeeded or is suspended. Raises JobFailed, TimeoutError."""
        backend = self._client.backend
        async with asyncio.timeout(timeout):
            while True:
                (record,) = await backend.ensure_driven([await self._refresh()])
                if record.state in OVER:
                    break
                await backend.pause(record, LONGEST_PAUSE)
        status = _status(record)
        if status.failure is not None and status.state == "Failed":
            raise JobFailed(self.id, status.failure)
        return status

    async def stop(self) -> None:
        """Stop the job and wait for its replicas to end; `resume` continues it."""
        await self.suspend(STOPPED)

    async def suspend(self, reason: str = "Suspended") -> None:
        """End all replicas and keep the record; `resume` continues the job."""
        await self._change(lambda job: suspended(job, reason))
        await self._client.backend.wait_until_stopped(self._record)

    async def resume(self) -> None:
        self._record = await self._client.backend.resume(await self._refresh())

    async def scale(self, **replicas: int) -> None:
        """Change numbers of replicas: `job.scale(worker=4)`. Raises InvalidScale."""
        from tfjob.jobs.scale import scaled  # here, because loading validation is slow

        scaled(self._record.job, replicas)  # before anything is sent
        await self._change(lambda job: scaled(job, replicas))

    async def delete(self) -> None:
        """End the job if it runs, and remove its record and logs."""
        await self._client.backend.delete(await self._refresh())

    async def _change(self, change: Callable[[Any], Any]) -> None:
        record = await self._refresh()
        if record.state in ("Succeeded", "Failed"):
            raise InvalidRequest(f"{self.id} has ended: it is {record.state}")
        self._record = await self._client.backend.change(record, change)

    async def _refresh(self) -> Record:
        found = await self._client.backend.refresh(self._record)
        if found is None:
            raise NotFound(f"{self.id} was deleted")
        self._record = found
        return found


def _status(record: Record) -> Status:
    status = record.job.status
    return Status(
        record.state,
        record.reason,
        status.message,
        status.ready,
        status.restarts,
        status.start_time,
        status.completion_time,
        status.failure,
    )


def _submit(request: Request) -> list[Record]:
    if request.target.cluster:
        from tfjob.launch import cluster
        from tfjob.launch.target import open_cluster

        with open_cluster(request.target, request.namespace) as backend:
            return cluster.submit(backend, cluster.prepare(request)).records
    from tfjob.launch import local

    return [one.record for one in local.start(local.prepare(request))]


def _check(request: Request) -> list[Problem]:
    from tfjob.launch import cluster, local
    from tfjob.launch.request import read_request
    from tfjob.launch.target import open_cluster

    try:
        prepared = cluster.prepare(request) if request.target.cluster else local.prepare(request)
    except InvalidManifest as error:
        return [*error.problems, *error.warnings]
    found = list(prepared.warnings)
    if request.target.cluster:
        with open_cluster(request.target, request.namespace) as backend:
            found += cluster.problems(backend, read_request(request)[1], request.namespace)
    return found
