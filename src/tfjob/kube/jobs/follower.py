"""Follow a job: its changes, and every line of its containers, through restarts and broken connections.

async with Follower(client, job) as follower:
    async for lines in follower.lines(): ...
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Self

import msgspec

from tfjob.api.objects import Pod
from tfjob.api.resources import PODS
from tfjob.api.types import TFJob
from tfjob.controller.kind import Stored
from tfjob.jobs.backend import Line, LogQuery
from tfjob.kube.access.errors import ApiError, Forbidden, NotFound, Unauthorized, Unreachable
from tfjob.kube.cache.decode import decode_owner
from tfjob.kube.cache.reflector import Backoff, Reflector
from tfjob.kube.cache.store import ObjectStore
from tfjob.kube.client.client import Client
from tfjob.kube.jobs.container_logs import Container, LogLines, belongs, containers_of, parameters, selector
from tfjob.kube.jobs.jobs import job_of, resource_of
from tfjob.plan.facts.conditions import SUSPENDED, is_finished
from tfjob.records.pods import ContainerRun

QUEUED_LINES, BATCH = 10_000, 1_000

_decode_pod = msgspec.json.Decoder(Pod).decode


Key = tuple[str, str]
"""The uid of a pod and the name of a container."""


class Followed(NamedTuple):
    """A line, and the run of the container that wrote it."""

    line: Line
    run: ContainerRun


class Follower:
    """Follows one job from now on; `on_job` gets the job after each change, and None when it is gone."""

    def __init__(
        self,
        client: Client,
        job: TFJob,
        query: LogQuery | None = None,
        on_job: Callable[[TFJob | None], None] = lambda job: None,
    ) -> None:
        self.job: TFJob | None = job
        self._first = job
        self._client = client
        self._look = client.durations.look.total_seconds()
        self._query = query or LogQuery()
        self._on_job = on_job
        self._jobs: ObjectStore[Stored] = ObjectStore(on_change=self._job_changed)
        self._pods: ObjectStore[Pod] = ObjectStore(on_change=self._pod_changed)
        self._known: dict[Key, Container] | None = None
        namespace, resource = job.metadata.namespace, resource_of(job)
        name = f"metadata.name={job.metadata.name}"
        self._job_reflector = Reflector(
            client, resource, partial(decode_owner, resource.kind), self._jobs, namespace, field_selector=name
        )
        self._namespace, self._selector = namespace, selector(job)
        self._pod_reflector = Reflector(client, PODS, _decode_pod, self._pods, namespace, self._selector)
        self._lines: asyncio.Queue[Followed] = asyncio.Queue(QUEUED_LINES)
        self._readers: dict[Key, asyncio.Task[None]] = {}
        self._reflecting: list[asyncio.Task[None]] = []
        self._happened, self._changed = asyncio.Event(), asyncio.Event()
        self._has_begun = False

    async def __aenter__(self) -> Self:
        self._reflecting = [
            asyncio.create_task(reflector.run()) for reflector in (self._job_reflector, self._pod_reflector)
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [*self._reflecting, *self._readers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def is_over(self) -> bool:
        """Whether nothing will change without a user: the job is gone, finished or suspended."""
        job = self.job
        return job is None or is_finished(job.status) or (job.spec.run_policy.suspend and job.status.state == SUSPENDED)

    @property
    def pods(self) -> list[Pod]:
        return [pod for pod in self._pods.all() if belongs(pod, self.job or self._first)]

    async def lines(self) -> AsyncGenerator[list[Followed], None]:
        """Yield lines as they arrive until the job is over; an empty list if only the job changed."""
        await self._pod_reflector.synced.wait()
        await self._job_reflector.synced.wait()
        if not self._jobs.all():
            self._set(None)
        last_words = self._client.durations.last_words.total_seconds()
        over = False
        while True:
            if self.is_over and not over:
                await self._refresh_pods()
            over = self.is_over
            self._follow_new_containers()
            batch = await self._batch(min(self._look, last_words))
            yield batch
            for task in (*self._reflecting, *self._readers.values()):
                if task.done() and (error := task.exception()) is not None:
                    raise error
            if over and not batch:
                last_words -= self._look
                if last_words <= 0 or not self._has_more_lines():
                    return

    async def _refresh_pods(self) -> None:
        """Read the pods: a job may end because of a change that the watch of its pods has not delivered yet."""
        with suppress(Unreachable, ApiError):
            for pod in (await self._client.list(PODS, self._namespace, label_selector=self._selector, type=Pod)).items:
                self._pods.put(pod)

    async def _batch(self, seconds: float) -> list[Followed]:
        """Return the queued lines; if there are none, wait until something changes."""
        if self._lines.empty():
            self._happened.clear()
            await wait_for_event(self._happened, seconds)
        found: list[Followed] = []
        while len(found) < BATCH and not self._lines.empty():
            found.append(self._lines.get_nowait())
        return found

    def _has_more_lines(self) -> bool:
        """Return whether lines of an ended container are still to come."""
        return not self._lines.empty() or any(
            not task.done() and ((container := self._containers().get(key)) is None or container.has_ended)
            for key, task in self._readers.items()
        )

    # --- the containers -----------------------------------------------------------------------------------------

    def _follow_new_containers(self) -> None:
        for key, container in self._containers().items():
            if key not in self._readers and container.has_log:
                begun = not self._has_begun
                lines = LogLines(container.label, is_tail=begun and self._query.tail is not None)
                reader = self._read(key, lines, begun=begun)
                self._readers[key] = asyncio.create_task(reader)
        self._has_begun = True

    def _containers(self) -> dict[Key, Container]:
        if self._known is None:
            self._known = {container.key: container for container in containers_of(self.pods, self._query.replica)}
        return self._known

    async def _read(self, key: Key, lines: LogLines, *, begun: bool) -> None:
        """Read all lines of a container, run after run; `begun` means that it existed before us."""
        backoff = Backoff(first=0.2, last=10.0)
        container = self._containers().get(key)
        number = container.restarts if container else 0
        read = whole = False
        while container is not None:
            if container.restarts > number:
                if not whole:
                    await self._rest_of_previous(container, lines)
                lines, number, begun = LogLines(container.label), container.restarts, False
                read = whole = False
            elif whole:
                if container.pod.status.phase in ("Succeeded", "Failed"):
                    return
            elif container.status and container.status.state.waiting is None:
                has_ended = container.has_ended
                try:
                    await self._stream(container, lines, begun=begun, read=read)
                    read = True
                    # A log that is read after its container ended is complete.
                    whole = has_ended
                    if whole:
                        continue
                except NotFound:
                    return
                except (Unreachable, ApiError, OSError) as error:
                    if isinstance(error, Forbidden | Unauthorized):
                        raise
                    await asyncio.sleep(backoff.delay())
                lines.reconnect()
            await wait_for_event(self._changed, self._look)
            container = self._containers().get(key)

    async def _stream(self, container: Container, lines: LogLines, *, begun: bool, read: bool) -> None:
        """Read the log from the last line on; `read` means that it was read to its end before."""
        query = self._query if begun and lines.since is None else LogQuery(since=lines.since or self._query.since)
        params = {**parameters(container.name, query), "follow": "true"}
        async with self._client.opened(container.log_path, params) as chunks:
            async for chunk in chunks:
                await self._put(self._without_removal_notice(lines.take(chunk), container, read=read), container.run)
        await self._put(self._without_removal_notice(lines.end(), container, read=read), container.run)

    def _without_removal_notice(self, lines: list[Line], container: Container, *, read: bool) -> list[Line]:
        """Drop the kubelet's notice that it removed a container whose log we have."""
        present = self._containers().get(container.key)
        leaves = present is None or present.pod.metadata.deletion_timestamp is not None
        return [line for line in lines if not line.notice] if read and leaves else lines

    async def _rest_of_previous(self, container: Container, lines: LogLines) -> None:
        """Read what the previous run wrote after our last line, if its log still exists."""
        params = parameters(container.name, LogQuery(previous=True, since=lines.since))
        run = ContainerRun(container.pod, container.name, container.restarts - 1)
        lines.reconnect()
        try:
            async for chunk in self._client.stream(container.log_path, params):
                await self._put(lines.take(chunk), run)
            await self._put(lines.end(), run)
        except (Unreachable, ApiError):
            return  # the log was removed with its container

    async def _put(self, lines: list[Line], run: ContainerRun) -> None:
        since = self._query.since
        for line in lines:
            if since is None or line.time >= since:
                await self._lines.put(Followed(line, run))
                self._happened.set()

    # --- changes ------------------------------------------------------------------------------------------------

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._known = None
        self._notify()

    def _job_changed(self, old: Stored | None, new: Stored | None) -> None:
        if new is not None and new.metadata.uid == self._first.metadata.uid:
            self._set(job_of(new))
        elif self.job is not None and (new or old):
            self._set(None)

    def _set(self, job: TFJob | None) -> None:
        self.job, self._known = job, None  # the random id of a TfJob selects its pods
        self._on_job(job)
        self._notify()

    def _notify(self) -> None:
        self._happened.set()
        self._changed.set()
        self._changed = asyncio.Event()  # one event per change, for all readers that wait for the next change


async def wait_for_event(event: asyncio.Event, seconds: float) -> None:
    # Before Python 3.12, `wait_for` loses a cancellation that comes at the same moment as the event.
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
