"""A queue of calls of one signature of one version: when the engine is free, all that wait run as one batch.

No call ever waits for others to arrive. While a batch runs in a thread, the next calls gather on the event loop. Calls
that are large already run alone, next to each other, because merging them would only copy memory.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from tfjob.serve import call
from tfjob.serve.call import Call
from tfjob.serve.errors import Code, Status
from tfjob.serve.metrics import Metrics
from tfjob.serve.models import Version
from tfjob.serve.savedmodel import Signature
from tfjob.serve.tensors import Array

LARGE = 16
"""Rows of a call that runs alone."""
Outcome = dict[str, Array] | Exception


@dataclass(slots=True, eq=False)
class _Waiting:
    call: Call
    rows: int
    shapes: tuple[tuple[int, ...], ...]
    """Of one row of each input, in the order of the signature: calls with the same can share a run."""
    deadline: float | None
    since: float
    future: asyncio.Future[dict[str, Array]]


class Queue:
    """The calls of one signature of one version. It belongs to one event loop."""

    def __init__(self, version: Version, signature: Signature, threads: Executor, metrics: Metrics) -> None:
        batching = version.batching
        self._version = version
        self._threads = threads
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._merges = batching.enabled and call.has_batches(signature)
        self._largest = batching.max_batch_size
        self._sizes = batching.sizes
        self._most_waiting = batching.max_enqueued_batches * batching.max_batch_size
        self._most_running = (batching.threads or os.cpu_count() or 1) if batching.enabled else 1 << 30
        self._waiting: deque[_Waiting] = deque()
        self._waiting_rows = 0
        self._running = 0
        self._is_scheduled = False

    async def run(self, one: Call, deadline: float | None = None) -> dict[str, Array]:
        """Run a call, perhaps together with others; raise Status. A caller that is cancelled leaves the queue."""
        rows = one.rows
        if self._waiting_rows + rows > self._most_waiting and self._waiting:
            raise Status(Code.UNAVAILABLE, f"The queue of {self._version.name} is full.")
        if self._sizes and rows > self._largest:
            raise Status(
                Code.INVALID_ARGUMENT, f"The request has {rows} rows, more than max_batch_size, {self._largest}."
            )
        shapes = tuple(array.shape[1:] for array in one.inputs.values()) if self._merges else ()
        waiting = _Waiting(one, rows, shapes, deadline, time.perf_counter(), self._loop.create_future())
        self._waiting.append(waiting)
        self._waiting_rows += rows
        self._metrics.waiting(self._version.name, 1)
        self._schedule()
        return await waiting.future

    def _schedule(self) -> None:
        """Look at the queue at the end of this turn of the loop, in which more calls may arrive."""
        if not self._is_scheduled and self._waiting and self._may_run():
            self._is_scheduled = True
            self._loop.call_soon(self._start)

    def _may_run(self) -> bool:
        if not self._running:
            return True
        is_full = not self._merges or self._waiting_rows >= self._largest or self._waiting[0].rows >= LARGE
        return is_full and self._running < self._most_running

    def _start(self) -> None:
        self._is_scheduled = False
        batch = self._take()
        if batch:
            self._running += 1
            self._version.acquire()  # the engine needs the version even if all callers are gone
            self._threads.submit(self._run_in_thread, batch)
        self._schedule()

    def _take(self) -> list[_Waiting]:
        """Remove the first call and those that fit with it, in their order."""
        batch: list[_Waiting] = []
        rows, now = 0, self._loop.time()
        while self._waiting:
            first = self._waiting[0]
            is_gone = first.future.done() or (first.deadline is not None and first.deadline <= now)
            if batch and not is_gone and not self._fits(first, batch[0], rows):
                break
            self._waiting.popleft()
            self._waiting_rows -= first.rows
            self._metrics.waiting(self._version.name, -1)
            if is_gone:
                if not first.future.done():
                    first.future.set_exception(Status(Code.DEADLINE_EXCEEDED, "The deadline was over in the queue."))
                continue
            batch.append(first)
            rows += first.rows
            if not self._merges or first.rows >= LARGE:
                break
        return batch

    def _fits(self, one: _Waiting, first: _Waiting, rows: int) -> bool:
        return one.rows < LARGE and rows + one.rows <= self._largest and one.shapes == first.shapes

    def _run_in_thread(self, batch: list[_Waiting]) -> None:
        begin = time.perf_counter()
        for waiting in batch:
            self._metrics.queued(begin - waiting.since)
        try:
            outcomes = self._run(batch)
        except Exception as error:
            outcomes = [error] * len(batch)
        self._metrics.runtime(self._version.name, batch[0].call.api, time.perf_counter() - begin)
        self._metrics.batch(self._version.name, sum(waiting.rows for waiting in batch))
        self._loop.call_soon_threadsafe(self._finish, batch, outcomes)

    def _run(self, batch: list[_Waiting]) -> Sequence[Outcome]:
        if len(batch) == 1 and not self._sizes:
            return [self._run_alone(batch[0])]
        try:
            outcomes = self._run_merged(batch)
        except Status as status:
            if len(batch) == 1:
                return [status]
            outcomes = None
        # One bad call, or outputs without a row for each row of the inputs: the others must not notice.
        return outcomes or [self._run_alone(waiting) for waiting in batch]

    def _run_alone(self, waiting: _Waiting) -> Outcome:
        if waiting.future.done():
            return {}
        try:
            return call.run(self._version.engine, waiting.call)
        except Status as status:
            return status

    def _run_merged(self, batch: list[_Waiting]) -> list[Outcome] | None:
        """Run a batch at once; None if the outputs cannot be divided."""
        first = batch[0].call
        rows = sum(waiting.rows for waiting in batch)
        size = next((size for size in self._sizes if size >= rows), rows)
        inputs = {}
        for alias, array in first.inputs.items():
            parts = [waiting.call.inputs[alias] for waiting in batch]
            if size > rows:
                parts.append(np.repeat(array[:1], size - rows, axis=0))
            inputs[alias] = np.concatenate(parts)
        wanted = {alias for waiting in batch for alias in waiting.call.outputs}
        outputs = tuple(alias for alias in first.signature.outputs if alias in wanted)
        found = call.run(self._version.engine, Call(first.signature, inputs, outputs))
        if any(array.shape[:1] != (size,) for array in found.values()):
            return None
        outcomes: list[Outcome] = []
        place = 0
        for waiting in batch:
            end = place + waiting.rows
            outcomes.append({alias: found[alias][place:end] for alias in waiting.call.outputs})
            place = end
        return outcomes

    def _finish(self, batch: list[_Waiting], outcomes: Sequence[Outcome]) -> None:
        self._version.release()
        self._running -= 1
        for waiting, outcome in zip(batch, outcomes, strict=True):
            if waiting.future.done():
                continue
            if isinstance(outcome, Exception):
                waiting.future.set_exception(outcome)
            else:
                waiting.future.set_result(outcome)
        self._schedule()
