"""The synchronous form of a backend, for commands and other code without an event loop.

    with Portal() as portal:
        backend = SyncBackend(portal, portal.enter(connect(access)))
        for lines in backend.logs(backend.find("mnist"), LogQuery(tail=10)): ...

This module does not load asyncio, which takes 30 ms: `Inline` is for backends that need no event loop.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from tfjob.api.types import TFJob
from tfjob.controller.actions import RecordedEvent
from tfjob.jobs.backend import Backend, Board, Line, LogQuery, Record, Replica

T = TypeVar("T")
B = TypeVar("B", bound=Backend)


class Caller(Protocol):
    """What runs coroutines for synchronous code: a `Portal`, or `Inline`."""

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""

    @property
    def is_open(self) -> bool:
        """Whether coroutines can still be run."""

    def iterate(self, values: AsyncGenerator[T, None]) -> Iterator[T]:
        """Give the values as they come; the generator is closed with this one."""

        async def following() -> T | None:
            return await anext(values, None)

        async def close() -> None:
            with suppress(RuntimeError):  # still running after a second Ctrl-C: it ends with the portal
                await values.aclose()

        try:
            while (value := self.call(following())) is not None:
                yield value
        finally:
            if self.is_open:
                self.call(close())


class Inline(Caller):
    """Runs coroutines that await no event loop, in the calling thread; `sleep` is how they wait."""

    is_open = True

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in one step."""
        try:
            work.send(None)
        except StopIteration as done:
            result: T = done.value
            return result
        work.close()
        raise RuntimeError("this backend needs an event loop")

    @staticmethod
    async def sleep(seconds: float) -> None:
        """Block the thread."""
        time.sleep(seconds)


class SyncBackend(Generic[B]):
    """The methods of `Backend`, each of which waits for its result; `backend` is the asynchronous one."""

    def __init__(self, caller: Caller, backend: B) -> None:
        self.backend = backend
        self.namespace = backend.namespace
        self.options = backend.options
        self.shared = backend.shared
        self._caller = caller

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine where the backend runs."""
        return self._caller.call(work)

    def jobs(self, *, everything: bool = False, all_namespaces: bool = False) -> list[Record]:
        return self.run(self.backend.jobs(everything=everything, all_namespaces=all_namespaces))

    def find(self, name: str) -> Record:
        return self.run(self.backend.find(name))

    def refresh(self, record: Record) -> Record | None:
        return self.run(self.backend.refresh(record))

    def ensure_driven(self, records: Sequence[Record]) -> list[Record]:
        return self.run(self.backend.ensure_driven(records))

    def pause(self, record: Record, seconds: float) -> None:
        self.run(self.backend.pause(record, seconds))

    def replicas(self, record: Record) -> list[Replica]:
        return self.run(self.backend.replicas(record))

    def events(self, record: Record) -> list[RecordedEvent]:
        return self.run(self.backend.events(record))

    def storage(self, record: Record) -> str:
        return self.run(self.backend.storage(record))

    def log_labels(self, record: Record, replica: str | None = None) -> list[str]:
        return self.run(self.backend.log_labels(record, replica))

    def logs(self, record: Record, query: LogQuery) -> Iterator[list[Line]]:
        return self._caller.iterate(self.backend.logs(record, query))

    def documents(self, record: Record) -> dict[str, Any]:
        return self.run(self.backend.documents(record))

    def change(self, record: Record, change: Callable[[TFJob], TFJob]) -> Record:
        return self.run(self.backend.change(record, change))

    def wait_until_stopped(self, record: Record) -> None:
        self.run(self.backend.wait_until_stopped(record))

    def resume(self, record: Record) -> Record:
        return self.run(self.backend.resume(record))

    def delete(self, record: Record) -> None:
        self.run(self.backend.delete(record))

    def running(self, record: Record) -> dict[str, list[str]]:
        return self.run(self.backend.running(record))

    def execute(self, record: Record, replica: str, container: str, command: Sequence[str], *, tty: bool) -> int:
        return self.run(self.backend.execute(record, replica, container, command, tty=tty))

    def tensorboard(
        self, records: Sequence[Record], port: int | None, ready: Callable[[Sequence[Board]], None]
    ) -> None:
        self.run(self.backend.tensorboard(records, port, ready))
