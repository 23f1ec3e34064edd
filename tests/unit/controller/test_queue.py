from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tfjob.controller.hooks import Hooks
from tfjob.controller.kind import Key
from tfjob.controller.queue import FIRST_DELAY, WorkQueue
from tfjob.durations import USUAL

A, B = Key("default", "a", "TFJob"), Key("default", "b", "TFJob")
LONG = 3600.0


def in_loop(test: Callable[[WorkQueue], Awaitable[None]]) -> None:
    async def run() -> None:
        queue = WorkQueue()
        await asyncio.wait_for(test(queue), timeout=120)
        queue.close()

    asyncio.run(run())


async def is_empty(queue: WorkQueue) -> bool:
    try:
        await asyncio.wait_for(queue.get(), timeout=0.05)
    except TimeoutError:
        return True
    return False


def test_many_wake_ups_for_a_key_are_one_pass() -> None:
    async def test(queue: WorkQueue) -> None:
        for _ in range(5):
            queue.add(A)
        queue.add(B)
        assert [await queue.get(), await queue.get()] == [A, B]
        assert await is_empty(queue)

    in_loop(test)


def test_a_key_that_is_worked_on_comes_back_only_when_that_is_done() -> None:
    async def test(queue: WorkQueue) -> None:
        queue.add(A)
        assert await queue.get() == A
        queue.add(A)
        queue.add(A)
        assert await is_empty(queue)
        queue.done(A)
        assert await queue.get() == A
        queue.done(A)
        assert await is_empty(queue)

    in_loop(test)


def test_two_workers_never_have_the_same_key() -> None:
    async def test(queue: WorkQueue) -> None:
        busy: set[Key] = set()
        passes = 0

        async def work() -> None:
            nonlocal passes
            while True:
                key = await queue.get()
                assert key not in busy
                busy.add(key)
                await asyncio.sleep(0)
                queue.add(key)
                await asyncio.sleep(0)
                busy.discard(key)
                passes += 1
                queue.done(key)

        workers = [asyncio.create_task(work()) for _ in range(3)]
        queue.add(A)
        queue.add(B)
        while passes < 100:
            assert not any(worker.done() for worker in workers)
            await asyncio.sleep(0)
        for worker in workers:
            worker.cancel()

    in_loop(test)


def test_of_several_later_times_the_earliest_counts_and_counts_once() -> None:
    async def test(queue: WorkQueue) -> None:
        for order in ([LONG, 0.01], [0.01, LONG]):
            for seconds in order:
                queue.add_after(A, seconds)
            assert await queue.get() == A
            queue.done(A)
            assert await is_empty(queue)

    in_loop(test)


def test_a_time_that_has_passed_means_now_and_a_new_one_can_be_asked_for_afterwards() -> None:
    async def test(queue: WorkQueue) -> None:
        for _ in range(3):
            queue.add_after(A, -5)
            assert await queue.get() == A
            queue.done(A)

    in_loop(test)


def test_failures_back_off_and_success_resets() -> None:
    async def test(queue: WorkQueue) -> None:
        delays = [queue.retry(A) for _ in range(30)]
        assert delays[:4] == [FIRST_DELAY, 2 * FIRST_DELAY, 4 * FIRST_DELAY, 8 * FIRST_DELAY]
        assert delays[-1] == USUAL.longest_retry.total_seconds()
        assert queue.retry(B) == FIRST_DELAY, "each key has its own back-off"
        queue.forget(A)
        assert queue.retry(A) == FIRST_DELAY

    in_loop(test)


class Load(Hooks):
    """What a queue says about its load."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []
        self.seconds: list[float] = []

    def added(self, depth: int) -> None:
        self.told.append(("added", depth))

    def taken(self, depth: int, waited: float) -> None:
        self.told.append(("taken", depth))
        self.seconds.append(waited)

    def retried(self) -> None:
        self.told.append(("retried", 0))

    def finished(self, seconds: float) -> None:
        self.told.append(("finished", 0))
        self.seconds.append(seconds)


def test_an_observer_learns_how_many_keys_wait_how_long_they_wait_and_how_long_the_work_takes() -> None:
    async def test(_: WorkQueue) -> None:
        load = Load()
        queue = WorkQueue(load)
        for key in (A, A, B):
            queue.add(key)
        await asyncio.sleep(0.02)
        await queue.get()
        await asyncio.sleep(0.01)
        assert [seconds >= 0.01 for seconds in queue.working_seconds()] == [True]
        queue.add(A)
        queue.done(A)
        queue.retry(B)
        queue.close()
        depths = [("added", 1), ("added", 2), ("taken", 1), ("added", 2), ("finished", 0), ("retried", 0)]
        assert load.told == depths
        waited, worked = load.seconds
        assert waited >= 0.02
        assert worked >= 0.01

    in_loop(test)


def test_a_closed_queue_rings_no_more() -> None:
    async def test(queue: WorkQueue) -> None:
        queue.add_after(A, 0.01)
        queue.close()
        assert await is_empty(queue)

    in_loop(test)
