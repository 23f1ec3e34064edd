"""What containers have written so far, merged by time."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime

from tfjob.jobs.backend import Line, LogQuery
from tfjob.kube.access.errors import ApiError, Forbidden, KubeError, Unauthorized
from tfjob.kube.client.client import Client
from tfjob.kube.jobs.containers import Container
from tfjob.kube.jobs.log_lines import LogLines

BATCH = 1000


async def read(
    client: Client, containers: Sequence[Container], query: LogQuery, kept: Sequence[Line], unreadable: set[str]
) -> AsyncGenerator[list[Line], None]:
    """The lines in batches, each container's present or last run, or with `previous` the run before it.

    Lines that were `kept` of other containers come between them. The labels of containers that have no log any more
    are added to `unreadable`.
    """
    readers: list[_Kept] = [_Reader(client, container, query, unreadable) for container in containers]
    readers.append(_Kept(kept))
    try:
        await asyncio.gather(*(reader.fill() for reader in readers))
        heap = [(reader.lines[0].time, number) for number, reader in enumerate(readers) if reader.lines]
        heapq.heapify(heap)
        batch: list[Line] = []
        while heap:
            _, number = heap[0]
            reader = readers[number]
            batch.append(reader.lines.popleft())
            if len(batch) == BATCH:
                yield batch
                batch = []
            if not reader.lines:
                await reader.fill()
            if reader.lines:
                heapq.heapreplace(heap, (reader.lines[0].time, number))
            else:
                heapq.heappop(heap)
        yield batch
    finally:
        for reader in readers:
            await reader.close()


class _Kept:
    """Lines that are there already."""

    def __init__(self, lines: Sequence[Line] = ()) -> None:
        self.lines = deque(lines)

    async def fill(self) -> None:
        """There are no more than these."""

    async def close(self) -> None:
        """Nothing is open."""


class _Reader(_Kept):
    """One container's lines, read as they are needed."""

    def __init__(self, client: Client, container: Container, query: LogQuery, unreadable: set[str]) -> None:
        super().__init__()
        self._unreadable = unreadable
        self._since = query.since
        self._lines = LogLines(container.label)
        self._chunks = _chunks(client, container.log_path, parameters(container.name, query))

    async def fill(self) -> None:
        """Reads until there is a line, or no more."""
        while not self.lines:
            try:
                chunk = await anext(self._chunks, None)
            except ApiError as error:
                if isinstance(error, Forbidden | Unauthorized):
                    raise
                if error.code >= 500:
                    self.lines.append(_trouble(self._lines, error))
                self._unreadable.add(self._lines.label)
                return
            except KubeError as error:
                self.lines.append(_trouble(self._lines, error))
                return
            found = self._lines.end() if chunk is None else self._lines.take(chunk)
            self.lines.extend(line for line in found if self._since is None or line.time >= self._since)
            if chunk is None:
                return

    async def close(self) -> None:
        """Ends the reading."""
        await self._chunks.aclose()


async def _chunks(client: Client, path: str, params: dict[str, str]) -> AsyncGenerator[bytes, None]:
    async for chunk in client.stream(path, params):
        yield chunk


def parameters(container: str, query: LogQuery) -> dict[str, str]:
    """What to ask for; `sinceTime` has whole seconds only."""
    params = {"container": container, "timestamps": "true"}
    if query.tail is not None:
        params["tailLines"] = str(query.tail)
    if query.since is not None:
        params["sinceTime"] = since_time(query.since)
    if query.previous:
        params["previous"] = "true"
    return params


def since_time(moment: datetime) -> str:
    """A moment as the API takes it; not later than it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _trouble(lines: LogLines, error: KubeError) -> Line:
    text = f"[tfjob: the log cannot be read: {error.message}]"
    return Line(lines.time or datetime.now(UTC), lines.label, text, notice=True)
