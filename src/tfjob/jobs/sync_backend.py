"""The synchronous form of a backend, for commands and other code without an event loop.

    with Portal() as portal:
        backend = SyncBackend(portal, portal.enter(connect(access)))
        for lines in backend.logs(backend.find("mnist"), LogQuery(tail=10)): ...

This module does not import asyncio, which takes 30 ms: `Inline` is for backends that do not need an event loop.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from tfjob.jobs.backend import Backend, Line, LogQuery, Record

if TYPE_CHECKING:
    from tfjob.jobs.port_forward import Forwarded, ForwardRequest

P = ParamSpec("P")
T = TypeVar("T")
B = TypeVar("B", bound=Backend)


class Caller(Protocol):
    """Runs coroutines for synchronous code: a `Portal` or `Inline`."""

    def call(self, work: Coroutine[Any, Any, T]) -> T: ...

    def serve(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine that needs an event loop and return its result."""
        return self.call(work)

    @property
    def is_open(self) -> bool: ...

    def iterate(self, values: AsyncGenerator[T, None]) -> Iterator[T]:
        """Yield the values of an asynchronous generator, and close it at the end."""

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
    """Runs coroutines that do not need an event loop, in the calling thread; they wait with `sleep`."""

    is_open = True

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            work.send(None)
        except StopIteration as done:
            result: T = done.value
            return result
        work.close()
        raise RuntimeError("this backend needs an event loop")

    def serve(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in a new event loop, in the calling thread."""
        import asyncio

        return asyncio.run(work)

    @staticmethod
    async def sleep(seconds: float) -> None:
        time.sleep(seconds)


def _waiting(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    def call(self: SyncBackend[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        work: Coroutine[Any, Any, T] = getattr(self.backend, method.__name__)(*args, **kwargs)
        return self.run(work)

    return call


class SyncBackend(Generic[B]):
    """The synchronous methods of `Backend`; `backend` is the asynchronous backend."""

    def __init__(self, caller: Caller, backend: B) -> None:
        self.backend = backend
        self.namespace = backend.namespace
        self.options = backend.options
        self.shared = backend.shared
        self._caller = caller

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._caller.call(work)

    jobs = _waiting(Backend.jobs)
    find = _waiting(Backend.find)
    refresh = _waiting(Backend.refresh)
    ensure_driven = _waiting(Backend.ensure_driven)
    pause = _waiting(Backend.pause)
    replicas = _waiting(Backend.replicas)
    events = _waiting(Backend.events)
    storage = _waiting(Backend.storage)
    log_labels = _waiting(Backend.log_labels)
    documents = _waiting(Backend.documents)
    change = _waiting(Backend.change)
    wait_until_stopped = _waiting(Backend.wait_until_stopped)
    suspend = _waiting(Backend.suspend)
    resume = _waiting(Backend.resume)
    request_deletion = _waiting(Backend.request_deletion)
    delete = _waiting(Backend.delete)
    running = _waiting(Backend.running)
    execute = _waiting(Backend.execute)
    tensorboard = _waiting(Backend.tensorboard)

    def logs(self, record: Record, query: LogQuery) -> Iterator[list[Line]]:
        return self._caller.iterate(self.backend.logs(record, query))

    def merged_logs(self, records: Mapping[str, Record], query: LogQuery) -> Iterator[list[Line]]:
        return self._caller.iterate(self.backend.merged_logs(records, query))

    def port_forward(
        self, request: ForwardRequest, ready: Callable[[Sequence[Forwarded]], None], warn: Callable[[str], None]
    ) -> None:
        self._caller.serve(self.backend.port_forward(request, ready, warn))
