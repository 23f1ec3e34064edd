"""The logs of the containers of a job's pods: bytes from an API server in, lines merged by time out.

`Container` knows the label of a container's lines and whether it can have any.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tfjob.api.dialect import origin
from tfjob.api.names import RUNTIME_ID_LABEL
from tfjob.api.objects import ContainerStatus, Pod
from tfjob.api.resources import PODS
from tfjob.api.types import TFJob
from tfjob.jobs.backend import Line, LogQuery
from tfjob.jobs.logs import LONGEST, character_start, container_labels, readable, visible
from tfjob.jobs.replicas import replica_name
from tfjob.kube.access.errors import ApiError, Forbidden, KubeError, Unauthorized
from tfjob.kube.client.client import Client
from tfjob.plan.facts.tasks import task_of
from tfjob.records.pods import ContainerRun

OVERLAP = timedelta(seconds=2)
"""How far the lines of a log may be out of order: stdout and stderr are written separately."""
Moment = bytes
"""A timestamp as the kubelet wrote it: a datetime has fewer digits."""
BATCH = 1000


@dataclass(frozen=True)
class Container:
    """A container or init container of a pod."""

    pod: Pod
    name: str
    label: str
    status: ContainerStatus | None

    @property
    def key(self) -> tuple[str, str]:
        return self.pod.metadata.uid, self.name

    @property
    def run(self) -> ContainerRun:
        return ContainerRun(self.pod, self.name, self.restarts)

    @property
    def restarts(self) -> int:
        return self.status.restart_count if self.status else 0

    @property
    def has_log(self) -> bool:
        """Whether it has started, so that its present or last run has a log."""
        status = self.status
        if status is None:
            return False
        return bool(status.state.running or status.state.terminated or status.last_state.terminated)

    @property
    def has_ended(self) -> bool:
        return self.status is not None and self.status.state.running is None and self.has_log

    @property
    def log_path(self) -> str:
        return PODS.object_path(self.pod.metadata.namespace, self.pod.metadata.name, "log")


def selector(job: TFJob) -> str:
    """Return the label selector of a job's pods; it also matches those of an earlier job with this name."""
    return f"{origin(job).name_label}={job.metadata.name}"


async def pods_of(client: Client, job: TFJob) -> list[Pod]:
    found = await client.list(PODS, job.metadata.namespace, label_selector=selector(job), type=Pod)
    return [pod for pod in found.items if belongs(pod, job)]


def belongs(pod: Pod, job: TFJob) -> bool:
    if origin(job).wraps_pods:  # a Job owns the pod
        return pod.metadata.labels.get(RUNTIME_ID_LABEL) == job.status.runtime_id != ""
    return any(owner.uid == job.metadata.uid for owner in pod.metadata.owner_references)


def containers_of(pods: Iterable[Pod], replica: str | None = None) -> list[Container]:
    """Return the containers that `replica` selects: all, those of a replica or pod, or one (`worker-0/sidecar`)."""
    found = []
    wanted, _, only = (replica or "").partition("/")
    for pod in sorted(pods, key=_order):
        name = replica_name(pod)
        if wanted and wanted not in (name, pod.metadata.name):
            continue
        known = (*pod.status.init_container_statuses, *pod.status.container_statuses)
        statuses = {status.name: status for status in known}
        for container, label in container_labels(name, pod.spec).items():
            if only in ("", container):
                found.append(Container(pod, container, label, statuses.get(container)))
    return found


def _order(pod: Pod) -> tuple[str, int]:
    task = task_of(pod)
    return (task.type, task.index) if task else (pod.metadata.name, 0)


class LogLines:
    """The lines of one run of one container; after a reconnection, lines that were read before are skipped.

    With `is_tail`, only the last lines were requested: older lines stay left out when the log is read again.
    """

    def __init__(self, label: str, *, is_tail: bool = False) -> None:
        self.label = label
        self._is_tail = is_tail
        self._first: datetime | None = None
        self.time: datetime | None = None
        """The time of the latest line."""
        self._recent: deque[tuple[datetime, Moment]] = deque()
        self._known: Counter[Moment] = Counter()
        self._begun = b""

    @property
    def since(self) -> datetime | None:
        """From when the log must be read again to miss nothing; None for from its beginning."""
        return self.time - OVERLAP if self.time else None

    def take(self, chunk: bytes) -> list[Line]:
        """Return the lines that a chunk completes."""
        *whole, self._begun = (self._begun + chunk).split(b"\n")
        return [line for encoded in whole for line in self._lines(encoded)]

    def end(self) -> list[Line]:
        encoded, self._begun = self._begun, b""
        return list(self._lines(encoded)) if encoded else []

    def reconnect(self) -> None:
        """Prepare to read the log again, from `since`."""
        self._begun = b""
        self._known = Counter(moment for _, moment in self._recent)

    def _lines(self, encoded: bytes) -> Iterator[Line]:
        stamp, _, text = encoded.partition(b" ")
        time = _time(stamp)
        if time is None:
            # Not a line of the log: the kubelet reports in the stream that it cannot continue.
            yield Line(self.time or datetime.now(UTC), self.label, f"[{readable(encoded)}]", notice=True)
            return
        if self._known[stamp] > 0:
            self._known[stamp] -= 1
            return
        if self._first is None:
            self._first = time
        elif self._is_tail and time < self._first:
            return
        self._remember(time, stamp)
        yield from pieces(time, self.label, text)

    def _remember(self, time: datetime, moment: Moment) -> None:
        if self.time is None or time > self.time:
            self.time = time
            # Keep one second more: the API accepts only whole seconds.
            while self._recent and self._recent[0][0] < time - OVERLAP - timedelta(seconds=1):
                self._recent.popleft()
        self._recent.append((time, moment))


def pieces(time: datetime, label: str, text: bytes) -> Iterator[Line]:
    """Yield a line as it can be shown, a long one in several pieces."""
    if b"\r" in text:
        text = visible(text)
    while len(text) > LONGEST:
        cut = character_start(text, LONGEST)
        yield Line(time, label, readable(text[:cut]), more=True)
        text = text[cut:]
    yield Line(time, label, readable(text.rstrip(b"\r")))


def _time(stamp: bytes) -> datetime | None:
    try:
        return datetime.fromisoformat(stamp.decode("ascii")) if len(stamp) >= 20 else None
    except ValueError:
        return None


async def read(
    client: Client, containers: Sequence[Container], query: LogQuery, kept: Sequence[Line], unreadable: set[str]
) -> AsyncGenerator[list[Line], None]:
    """Yield lines in batches, of each container's present or last run, or with `previous` of the run before it.

    `kept` lines of other containers are merged in. Labels of containers whose log no longer exists are added to
    `unreadable`.
    """
    sources = [_read_one(client, container, query, unreadable) for container in containers]
    async with aclosing(merge([*sources, _one_batch(kept)])) as batches:
        async for batch in batches:
            yield batch


async def _one_batch(lines: Sequence[Line]) -> AsyncGenerator[list[Line], None]:
    yield list(lines)


async def merge(sources: Sequence[AsyncGenerator[list[Line], None]]) -> AsyncGenerator[list[Line], None]:
    """Yield the lines of all sources by time, in batches; read from each source only as far as needed."""
    async with AsyncExitStack() as stack:
        for source in sources:
            stack.push_async_callback(source.aclose)
        ahead = [deque(first) for first in await asyncio.gather(*map(_next_lines, sources))]
        heap = [(lines[0].time, number) for number, lines in enumerate(ahead) if lines]
        heapq.heapify(heap)
        batch: list[Line] = []
        while heap:
            _, number = heap[0]
            lines = ahead[number]
            batch.append(lines.popleft())
            if len(batch) == BATCH:
                yield batch
                batch = []
            if not lines:
                lines.extend(await _next_lines(sources[number]))
            if lines:
                heapq.heapreplace(heap, (lines[0].time, number))
            else:
                heapq.heappop(heap)
        yield batch


async def _next_lines(source: AsyncGenerator[list[Line], None]) -> list[Line]:
    """Return the next batch that is not empty; an empty one at the end."""
    async for batch in source:
        if batch:
            return batch
    return []


async def interleave(sources: Sequence[AsyncGenerator[list[Line], None]]) -> AsyncGenerator[list[Line], None]:
    """Yield the lines of sources that grow, as they arrive; those that arrive together by time."""

    async def following(source: AsyncGenerator[list[Line], None]) -> list[Line] | None:
        return await anext(source, None)

    reading = {asyncio.create_task(following(source)): source for source in sources}
    try:
        while reading:
            done, _ = await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)
            arrived = []
            for task in done:
                source = reading.pop(task)
                if (batch := task.result()) is not None:
                    arrived.append(batch)
                    reading[asyncio.create_task(following(source))] = source
            yield list(heapq.merge(*arrived, key=lambda line: line.time))
    finally:
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        for source in sources:
            await source.aclose()


async def _read_one(
    client: Client, container: Container, query: LogQuery, unreadable: set[str]
) -> AsyncGenerator[list[Line], None]:
    """Yield the lines of one container as they are needed, never an empty list."""
    lines = LogLines(container.label)

    def wanted(found: list[Line]) -> list[Line]:
        return [line for line in found if query.since is None or line.time >= query.since]

    try:
        async with aclosing(client.stream(container.log_path, parameters(container.name, query))) as chunks:
            async for chunk in chunks:
                if found := wanted(lines.take(chunk)):
                    yield found
        if found := wanted(lines.end()):
            yield found
    except (Forbidden, Unauthorized):
        raise
    except KubeError as error:
        if isinstance(error, ApiError):
            unreadable.add(container.label)
        if not isinstance(error, ApiError) or error.code >= 500:
            text = f"[tfjob: cannot read the log: {error.message}]"
            yield [Line(lines.time or datetime.now(UTC), container.label, text, notice=True)]


def parameters(container: str, query: LogQuery) -> dict[str, str]:
    params = {"container": container, "timestamps": "true"}
    if query.tail is not None:
        params["tailLines"] = str(query.tail)
    if query.since is not None:  # the API accepts only whole seconds: round down
        params["sinceTime"] = query.since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if query.previous:
        params["previous"] = "true"
    return params
