"""What a pass writes: together but not all at once, in order, and nothing after its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.controller.world import World, play
from support.plan.builders import job
from tfjob.controller.controller import AT_ONCE


def slow(world: World) -> list[int]:
    """Makes every write take its time; returns how many were under way at each."""
    under_way, genuine = [0], (world.cluster.create, world.cluster.delete)
    now = 0

    def taking_time(write: Any) -> Any:
        async def slowly(*given: Any) -> None:
            nonlocal now
            now += 1
            under_way.append(now)
            try:
                await asyncio.sleep(0.01)
                await write(*given)
            finally:
                now -= 1

        return slowly

    world.cluster.create, world.cluster.delete = map(taking_time, genuine)  # type: ignore[method-assign]
    return under_way


def test_what_a_pass_makes_is_made_together_but_not_all_at_once() -> None:
    async def story(world: World) -> None:
        under_way = slow(world)
        await world.passes()
        assert (len(world.cluster.pods()), max(under_way)) == (100, AT_ONCE)

    play(job(worker=100), story)


def test_removals_are_over_before_anything_is_made() -> None:
    async def story(world: World) -> None:
        await world.passes()
        world.runs()
        await world.passes()
        world.scaled(Worker=1, PS=2)
        world.cluster.operations.clear()
        slow(world)
        await world.passes()
        done = [operation.split()[0] for operation in world.cluster.operations if "status" not in operation]
        assert done == ["delete", "delete", "create", "create"]

    play(job(worker=2, ps=1), story)


def test_a_write_that_fails_does_not_keep_the_others_from_being_done() -> None:
    async def story(world: World) -> None:
        slow(world)
        world.refuses(lambda: OSError("disk full"), kind="create Pod mnist-worker-0")
        with pytest.raises(OSError, match="disk full"):
            await world.passes()
        assert world.cluster.pods() == ["mnist-worker-1", "mnist-worker-2"]
        assert len(world.cluster.stored) == 5, "the services too"
        world.refuses(None)
        await world.passes()
        assert len(world.cluster.pods()) == 3

    play(job(worker=3), story)


def test_a_controller_that_is_stopped_leaves_no_write_behind() -> None:
    async def story(world: World) -> None:
        begun, may_write, genuine = asyncio.Event(), asyncio.Event(), world.cluster.create

        async def held(child: Any) -> None:
            begun.set()
            await may_write.wait()
            await genuine(child)

        world.cluster.create = held  # type: ignore[method-assign]
        stopped = asyncio.create_task(world.passes())
        await begun.wait()
        stopped.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopped
        may_write.set()
        for _ in range(10):  # what was left behind would be done now
            await asyncio.sleep(0)
        assert world.cluster.stored == {}

    play(job(worker=3), story)
