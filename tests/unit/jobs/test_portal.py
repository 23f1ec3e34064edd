"""Asynchronous code from synchronous callers: results, errors, iteration, Ctrl-C, and a running event loop."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from tfjob.jobs.portal import Portal
from tfjob.jobs.sync_backend import Caller, Inline


async def double(number: int) -> int:
    return 2 * number


async def fail() -> None:
    raise ValueError("no")


class Counting:
    """Counts forever, and records whether it was closed."""

    def __init__(self) -> None:
        self.ended = False

    async def numbers(self) -> AsyncGenerator[int, None]:
        try:
            number = 0
            while True:
                yield number
                number += 1
        finally:
            self.ended = True


async def wait_for_ctrl_c() -> None:
    """Simulate Ctrl-C while the caller waits for this work: Python handles signals in the main thread."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)  # another thread would not wake it
    await asyncio.sleep(60)


@pytest.fixture(params=["portal", "inline"])
def caller(request: pytest.FixtureRequest) -> Iterator[Caller]:
    if request.param == "inline":
        yield Inline()
        return
    with Portal() as portal:
        yield portal


def test_a_call_gives_the_result_or_raises_the_error(caller: Caller) -> None:
    assert caller.call(double(2)) == 4
    with pytest.raises(ValueError, match="no"):
        caller.call(fail())


def test_a_consumer_that_stops_iterating_ends_the_work(caller: Caller) -> None:
    counting = Counting()
    for number in caller.iterate(counting.numbers()):
        if number == 3:
            break
    assert counting.ended


def test_calls_work_inside_a_running_event_loop() -> None:
    async def notebook() -> int:
        with Portal() as portal:
            return portal.call(double(21))

    assert asyncio.run(notebook()) == 42


def test_all_work_of_a_portal_is_done_in_one_thread() -> None:
    async def thread() -> int:
        return threading.get_ident()

    with Portal() as portal:
        first = portal.call(thread())
        assert first == portal.call(thread()) != threading.get_ident()


def test_what_was_entered_is_left_when_the_portal_closes() -> None:
    told: list[str] = []

    @asynccontextmanager
    async def room() -> AsyncIterator[str]:
        told.append("entered")
        yield "inside"
        await asyncio.sleep(0)
        told.append("left")

    with Portal() as portal:
        assert portal.enter(room()) == "inside"
        assert told == ["entered"]
    assert told == ["entered", "left"]


def test_an_entry_that_takes_too_long_is_given_up() -> None:
    @asynccontextmanager
    async def slow() -> AsyncIterator[None]:
        await asyncio.sleep(60)
        yield

    with Portal() as portal, pytest.raises(TimeoutError):
        portal.enter(slow(), 0.05)


def test_ctrl_c_cancels_the_work_and_waits_for_its_end() -> None:
    told: list[str] = []

    async def work() -> None:
        try:
            await wait_for_ctrl_c()
        finally:
            await asyncio.sleep(0.05)
            told.append("cleaned up")

    with Portal() as portal:
        with pytest.raises(KeyboardInterrupt):
            portal.call(work())
        assert told == ["cleaned up"]


def test_work_may_answer_a_ctrl_c_itself() -> None:
    async def work() -> str:
        try:
            await wait_for_ctrl_c()
        except asyncio.CancelledError:
            return "interrupted"
        return "over"

    with Portal() as portal:
        assert portal.call(work()) == "interrupted"


@pytest.mark.parametrize("_", range(20))
def test_a_second_ctrl_c_does_not_wait(_: int) -> None:
    """The signals arrive while the main thread starts to wait: without slices, one of a few waits would not end."""
    released = threading.Event()

    async def work() -> None:
        try:
            await wait_for_ctrl_c()
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.to_thread(released.wait)

    with Portal() as portal:
        with pytest.raises(KeyboardInterrupt):
            portal.call(work())
        released.set()


def test_ctrl_c_ends_an_iteration_that_waits() -> None:
    ended = threading.Event()

    async def lines() -> AsyncGenerator[int, None]:
        try:
            yield 1
            await wait_for_ctrl_c()
            yield 2
        finally:
            ended.set()

    with Portal() as portal:
        with pytest.raises(KeyboardInterrupt):
            list(portal.iterate(lines()))
        assert ended.is_set()


def test_an_iterator_may_outlive_its_portal() -> None:
    counting = Counting()
    with Portal() as portal:
        numbers = portal.iterate(counting.numbers())
        assert next(numbers) == 0
    del numbers
    assert counting.ended


def test_work_that_needs_an_event_loop_is_refused_without_one() -> None:
    with pytest.raises(RuntimeError, match="event loop"):
        Inline().call(asyncio.sleep(0))


def test_a_ctrl_c_in_the_moment_of_a_value_takes_effect_after_it() -> None:
    async def values() -> AsyncGenerator[int, None]:
        try:
            await wait_for_ctrl_c()
        except asyncio.CancelledError:
            yield 1  # as if it had come before the cancellation
        await asyncio.sleep(60)

    with Portal() as portal:
        found = portal.iterate(values())
        assert next(found) == 1
        with pytest.raises(KeyboardInterrupt):
            next(found)
