"""A thread with an event loop, for synchronous code that calls asynchronous code.

    with Portal() as portal:
        client = portal.enter(Client(access))
        pods = portal.call(client.list(PODS, type=Pod))

It also works if the calling thread has a running event loop, as in a notebook.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Self, TypeVar

from tfjob.jobs.sync_backend import Caller

T = TypeVar("T")
_SLICE = 0.5
"""Seconds of one wait: a signal that arrives just before a wait begins takes effect only when the wait ends."""


class Portal(Caller):
    """A thread with an event loop, within `with`."""

    def __init__(self) -> None:
        self._started: Future[asyncio.AbstractEventLoop] = Future()
        self._closing = asyncio.Event()
        self._entered = AsyncExitStack()
        self._owes_interrupt = False
        # A daemon, because a second Ctrl-C must end the process even if the event loop is busy.
        self._thread = Thread(target=lambda: asyncio.run(self._serve()), name="tfjob-portal", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._loop = self._started.result()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    @property
    def is_open(self) -> bool:
        return not self._loop.is_closed()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine. Ctrl-C cancels it and waits for its end; a second Ctrl-C does not wait."""
        tasks: list[asyncio.Task[T]] = []
        finished = SimpleQueue[None]()

        def start() -> None:
            tasks.append(self._loop.create_task(work))
            tasks[0].add_done_callback(lambda _: finished.put(None))

        def cancel() -> None:
            if not tasks:  # interrupted before it was queued
                start()
            tasks[0].cancel()

        try:
            # This thread may be interrupted before the call returns, although the work has been queued.
            self._loop.call_soon_threadsafe(start)
            return _result(tasks, finished)
        except KeyboardInterrupt:
            self._loop.call_soon_threadsafe(cancel)
        try:
            result = _result(tasks, finished)
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        self._owes_interrupt = True
        return result

    def iterate(self, values: AsyncGenerator[T, None]) -> Iterator[T]:
        """Yield the values; a Ctrl-C that arrives together with a value takes effect after it."""
        self._owes_interrupt = False
        for value in super().iterate(values):
            yield value
            if self._owes_interrupt:
                raise KeyboardInterrupt

    def enter(self, context: AbstractAsyncContextManager[T], seconds: float | None = None) -> T:
        """Enter an asynchronous context; it exits when the portal closes. Raises TimeoutError."""

        async def enter() -> T:
            async with asyncio.timeout(seconds):
                return await self._entered.enter_async_context(context)

        return self.call(enter())

    async def _serve(self) -> None:
        async with self._entered:
            self._started.set_result(asyncio.get_running_loop())
            await self._closing.wait()


def _result(tasks: Sequence[asyncio.Task[T]], finished: SimpleQueue[None]) -> T:
    """Wait for a task of another thread, which fills the queue at its end, and return the result of the task.

    Ctrl-C interrupts the wait within `_SLICE`. A queue, unlike an event or a future, stays intact if that happens.
    """
    while not (tasks and tasks[0].done()):
        with suppress(Empty):
            finished.get(timeout=_SLICE)
    return tasks[0].result()
