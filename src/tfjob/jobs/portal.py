"""A thread with an event loop, through which synchronous code calls asynchronous code.

    with Portal() as portal:
        client = portal.enter(Client(access))
        pods = portal.call(client.list(PODS))

It also works where the calling thread has a running event loop of its own, as in a notebook.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from threading import Thread
from typing import Any, Self, TypeVar

from tfjob.jobs.sync_backend import Caller

T = TypeVar("T")


class Portal(Caller):
    """One thread with one event loop, within `with`."""

    def __init__(self) -> None:
        self._started: Future[asyncio.AbstractEventLoop] = Future()
        self._closing = asyncio.Event()
        self._entered = AsyncExitStack()
        self._owes_interrupt = False
        # A daemon: a second Ctrl-C must end the process, whatever the event loop still does.
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
        """Wait for the result; Ctrl-C cancels the work and waits for its end, a second Ctrl-C does not wait."""
        outcome: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            tasks.append(self._loop.create_task(work))
            tasks[0].add_done_callback(lambda task: _transfer(task, outcome))

        def cancel() -> None:
            if tasks:
                tasks[0].cancel()
            else:  # interrupted before it was queued
                work.close()
                outcome.set_exception(asyncio.CancelledError())

        try:
            # The other thread may run for a while before this one is back from its call.
            self._loop.call_soon_threadsafe(start)
            return outcome.result()
        except KeyboardInterrupt:
            self._loop.call_soon_threadsafe(cancel)
        try:
            result = outcome.result()
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        self._owes_interrupt = True
        return result

    def iterate(self, values: AsyncGenerator[T, None]) -> Iterator[T]:
        """Give the values as they come; a Ctrl-C in the moment in which one comes takes effect after it."""
        self._owes_interrupt = False
        for value in super().iterate(values):
            yield value
            if self._owes_interrupt:
                raise KeyboardInterrupt

    def enter(self, context: AbstractAsyncContextManager[T], seconds: float | None = None) -> T:
        """Enter an asynchronous context, which is left when the portal closes. Raises TimeoutError."""

        async def enter() -> T:
            async with asyncio.timeout(seconds):
                return await self._entered.enter_async_context(context)

        return self.call(enter())

    async def _serve(self) -> None:
        async with self._entered:
            self._started.set_result(asyncio.get_running_loop())
            await self._closing.wait()


def _transfer(task: asyncio.Task[T], outcome: Future[T]) -> None:
    if task.cancelled():
        outcome.set_exception(asyncio.CancelledError())
    elif error := task.exception():
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())
