"""The jobs of a Kubernetes cluster, for commands."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence, Set
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from tfjob.api.dialect import origin
from tfjob.api.objects import Pod
from tfjob.api.resources import PODS
from tfjob.api.types import TFJob
from tfjob.controller.actions import RecordedEvent
from tfjob.durations import durations_from
from tfjob.jobs import find as finding
from tfjob.jobs.backend import Board, Line, LogQuery, NotFound, Record, Replica
from tfjob.jobs.portal import Portal
from tfjob.jobs.replicas import container_names, replicas
from tfjob.jobs.sync_backend import SyncBackend
from tfjob.kube.access import errors
from tfjob.kube.access.config import Access
from tfjob.kube.client.client import Client
from tfjob.kube.client.version import server_version
from tfjob.kube.jobs import jobs
from tfjob.kube.jobs.container_logs import containers_of, interleave, merge, pods_of, selector
from tfjob.kube.jobs.jobs import events_of
from tfjob.plan.build.job_storage import storage_of
from tfjob.plan.facts.conditions import SUSPENDED, is_finished
from tfjob.plan.policy.run_policy import resumed, suspended
from tfjob.records.job_records import JobRecords, short_id

if TYPE_CHECKING:
    from tfjob.jobs.port_forward import Forwarded, ForwardRequest

T = TypeVar("T")

CONNECTIONS = 10_000
"""One per container whose log is read."""


class Unattended(errors.KubeError):
    """No operator acts on a job."""

    def __init__(self, record: Record, seconds: float) -> None:
        super().__init__(
            f"{record.name} was edited, but no operator has reacted for {seconds:.0f} s",
            f"Check that the operator is running: tfjob doctor{record.options}",
        )


@asynccontextmanager
async def connect(access: Access, namespace: str, options: str, records: Path) -> AsyncIterator[KubeBackend]:
    """Yield the jobs of a namespace; command lines select it with `options`, and `records` has the attached runs."""
    async with Client(access, CONNECTIONS, durations_from(os.environ)) as client:
        yield KubeBackend(client, namespace or access.namespace, options, JobRecords(records))


class KubeBackend:
    """The jobs of one namespace."""

    shared = True

    def __init__(self, client: Client, namespace: str, options: str, records: JobRecords) -> None:
        self.client = client
        self.namespace = namespace
        self.options = options
        self.records = records

    def reconnect(self) -> AbstractAsyncContextManager[KubeBackend]:
        return connect(self.client.access, self.namespace, self.options, self.records.folder)

    # --- reading ------------------------------------------------------------------------------------------------

    async def jobs(self, *, everything: bool = False, all_namespaces: bool = False) -> list[Record]:
        namespace = "" if all_namespaces else self.namespace
        found = await jobs.list_jobs(self.client, namespace)
        taken = {(job.metadata.namespace, job.metadata.name) for job in found if not origin(job).id_prefix}
        records = [_with_prefix(self.record(job), taken) for job in found]
        if everything:
            present = {job.metadata.uid for job in found}
            kept = (one.job for one in self.records.all(namespace or None))
            records += [self.record(job, current=False) for job in kept if job.metadata.uid not in present]
        return sorted(records, key=lambda record: record.created)

    async def find(self, name: str) -> Record:
        """Find a job, first by its exact name, which needs no permission to list."""
        if name and name != finding.LATEST:
            with suppress(ValueError):  # not a valid name
                if (job := await jobs.get(self.client, self.namespace, name)) is not None:
                    return self.record(job)
        listed = await self.jobs(everything=True)
        for record in listed:
            if record.current and short_id(record.job) == name:
                return record
        found = finding.find(listed, name)
        if found is None:
            elsewhere = await jobs.namespaces_with(self.client, "" if name == finding.LATEST else name)
            raise finding.not_found(listed, name, self.namespace, elsewhere, self.options)
        return found

    async def refresh(self, record: Record) -> Record | None:
        if not record.current:
            return record
        job = await jobs.reread(self.client, record.job)
        return self.record(job) if job is not None and job.metadata.uid == record.uid else None

    async def ensure_driven(self, records: Sequence[Record]) -> list[Record]:
        """Do nothing: the operator drives jobs."""
        return list(records)

    async def pause(self, records: Sequence[Record], seconds: float) -> None:
        waits = [asyncio.create_task(jobs.wait_for_change(self.client, one.job, seconds)) for one in records]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def replicas(self, record: Record) -> list[Replica]:
        pods = await pods_of(self.client, record.job) if record.current else []
        return replicas(record.job, pods)

    async def events(self, record: Record) -> list[RecordedEvent]:
        """Return the events of the job and its pods; a cluster keeps them for an hour."""
        return await events_of(self.client, record.job)

    async def storage(self, record: Record) -> str:
        volume, _ = storage_of(record.job) or ({}, {})
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        return f"claim {claim}" if claim else ""

    def record(self, job: TFJob, *, current: bool = True) -> Record:
        return jobs.record(
            job,
            datetime.now(UTC),
            patience=self.client.durations.unseen,
            current=current,
            folder=self.records.folder_of(job),
            options=self.options_for(job.metadata.namespace),
        )

    def options_for(self, namespace: str) -> str:
        """Return the options with which a command finds a job: its namespace may differ from ours."""
        return self.options if namespace == self.namespace else f"{self.options} -n {namespace}"

    # --- logs ---------------------------------------------------------------------------------------------------

    async def log_labels(self, record: Record, replica: str | None = None) -> list[str]:
        from tfjob.kube.jobs.logs import JobLogs

        return await JobLogs(self.client, record.job, self.records).labels(replica, gone=not record.current)

    def logs(self, record: Record, query: LogQuery) -> AsyncGenerator[list[Line], None]:
        from tfjob.kube.jobs.logs import JobLogs

        return JobLogs(self.client, record.job, self.records).read(query, gone=not record.current)

    def merged_logs(self, records: Mapping[str, Record], query: LogQuery) -> AsyncGenerator[list[Line], None]:
        streams = [_with_key(key, self.logs(record, query)) for key, record in records.items()]
        return interleave(streams) if query.follow else merge(streams)

    async def documents(self, record: Record) -> dict[str, Any]:
        """Return the job and its pods as the API server stores them, and the cluster's version."""
        job = record.job
        if not record.current:
            return {"job.yaml": msgspec.to_builtins(job)}
        found = await self.client.get(jobs.resource_of(job), job.metadata.namespace, job.metadata.name)
        pods = await self.client.list(PODS, job.metadata.namespace, label_selector=selector(job), type=dict)
        version = await server_version(self.client)
        return {"job.yaml": found, "pods.yaml": pods.items, "cluster.yaml": {"version": str(version)}}

    # --- changing -----------------------------------------------------------------------------------------------

    async def change(self, record: Record, change: Callable[[TFJob], TFJob]) -> Record:
        return self.record(await jobs.edit(self.client, record.job, change))

    async def wait_until_stopped(self, record: Record) -> None:
        patience = self.client.durations.unnoticed.total_seconds()
        deadline = time.monotonic() + patience
        while (present := await self.refresh(record)) is not None and not is_finished(present.job.status):
            status = present.job.status
            # An annotation stops a TfJob, which does not change its generation.
            noticed = status.observed_generation >= present.job.metadata.generation and (
                status.state == SUSPENDED or not origin(present.job).suspends_by_annotation
            )
            if noticed and status.state == SUSPENDED and not await pods_of(self.client, present.job):
                return
            if not noticed and time.monotonic() > deadline:
                raise Unattended(present, patience)
            await self.pause([present], self.client.durations.look.total_seconds())

    async def suspend(self, record: Record, reason: str) -> Record:
        return await self.change(record, lambda job: suspended(job, reason))

    async def resume(self, record: Record) -> Record:
        return await self.change(record, resumed)

    async def request_deletion(self, record: Record) -> None:
        if record.current:
            resource, uid = jobs.resource_of(record.job), record.uid
            with suppress(errors.NotFound, errors.Conflict):  # another client deleted it
                await self.client.delete(resource, record.namespace, record.name, uid, "Background")

    async def delete(self, record: Record) -> None:
        await self.request_deletion(record)
        if record.current:
            while (present := await self.refresh(record)) is not None:
                await self.pause([present], self.client.durations.look.total_seconds())
        self.records.remove(record.job)

    # --- processes ----------------------------------------------------------------------------------------------

    async def running(self, record: Record) -> dict[str, list[str]]:
        pods = await self._pods(record) if record.current else {}
        return {name: container_names(pod.spec) for name, pod in pods.items() if pod.status.phase == "Running"}

    async def execute(self, record: Record, replica: str, container: str, command: Sequence[str], *, tty: bool) -> int:
        from tfjob.kube.jobs.exec import execute

        pod = (await self._pods(record)).get(replica)
        if pod is None:
            raise NotFound(f"the pod of {replica} no longer exists")
        metadata = pod.metadata
        return await execute(self.client, metadata.namespace, metadata.name, container, list(command), tty=tty)

    async def _pods(self, record: Record) -> dict[str, Pod]:
        containers = containers_of(await pods_of(self.client, record.job))
        return {one.label.partition("/")[0]: one.pod for one in containers}

    async def tensorboard(
        self, records: Sequence[Record], port: int | None, ready: Callable[[Sequence[Board]], None], log_dir: str = ""
    ) -> None:
        from tfjob.errors import InvalidRequest
        from tfjob.kube.jobs.tensorboard import show

        if log_dir:
            hint = "Set spec.tensorBoard.logDir in the manifest, and apply it again."
            raise InvalidRequest("--logdir only applies to this machine: on a cluster, the job has the folder", hint)
        if without := [record.id for record in records if not record.has_tensorboard]:
            has = "has" if len(without) == 1 else "have"
            hint = "Set spec.tensorBoard.logDir in the manifest to the folder of the event files."
            raise NotFound(f"{', '.join(without)} {has} no TensorBoard", hint)
        for record in records:
            if not record.current:
                raise NotFound(f"{record.id} no longer exists on the cluster, so it has no TensorBoard")
        await show(self.client, {record.id: record.job for record in records}, port, ready)

    async def port_forward(
        self, request: ForwardRequest, ready: Callable[[Sequence[Forwarded]], None], warn: Callable[[str], None]
    ) -> None:
        from tfjob.jobs.port_forward import forward
        from tfjob.kube.jobs.port_forward import KubePlace

        await forward(KubePlace(self.client, self.namespace, self.find), request, ready, warn)


async def _with_key(key: str, batches: AsyncGenerator[list[Line], None]) -> AsyncGenerator[list[Line], None]:
    async with aclosing(batches):
        async for batch in batches:
            yield [line._replace(replica=key + line.replica) for line in batch]


def _with_prefix(record: Record, taken: Set[tuple[str, str]]) -> Record:
    """Add the kind's prefix to the id of a TfJob if a TFJob has the same name."""
    prefix = origin(record.job).id_prefix
    if not prefix or (record.job.metadata.namespace, record.name) not in taken:
        return record
    return replace(record, id=prefix + record.name)


class SyncKubeBackend(SyncBackend[KubeBackend]):
    """The synchronous form, for commands that also send their own requests."""

    def __init__(self, portal: Portal, backend: KubeBackend, until: float | None = None) -> None:
        super().__init__(portal, backend)
        self.client = backend.client
        self.record = backend.record
        self.options_for = backend.options_for
        self._until = until

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the backend's thread. Raises TimeoutError once the backend's time is over."""

        async def bounded() -> T:
            async with asyncio.timeout_at(self._until):
                return await work

        return super().run(bounded())


@contextmanager
def open_backend(
    access: Access, namespace: str, options: str, records: Path, seconds: float | None = None
) -> Iterator[SyncKubeBackend]:
    """Open a backend for synchronous callers; after `seconds`, requests without an answer raise TimeoutError."""
    until = None if seconds is None else time.monotonic() + seconds  # the event loop uses this clock too
    with Portal() as portal:
        backend = portal.enter(connect(access, namespace, options, records), seconds)
        yield SyncKubeBackend(portal, backend, until)
