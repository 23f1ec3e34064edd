"""The loop: through changes, conflicts and failures, with observers, and awake in time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from support.controller.world import KEY, World, play
from support.plan.builders import job
from tfjob.controller.cluster import Conflict
from tfjob.controller.controller import Controller
from tfjob.controller.hooks import Hooks
from tfjob.controller.kind import Key
from tfjob.plan.kind import TFJobKind


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.005)


def test_the_loop_works_through_changes_conflicts_and_failures(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        faults = [OSError("disk full"), Conflict("mnist"), OSError("disk full")]

        def before(operation: str, name: str) -> None:
            if faults:
                raise faults.pop()

        world.cluster.before = before
        loop = asyncio.create_task(world.controller.run(workers=2))
        await until(lambda: len(world.cluster.pods()) == 2)
        world.runs()
        world.cluster.tell(KEY)
        await until(lambda: world.status.state == "Running")
        world.ends("mnist-worker-0", 0)
        world.cluster.tell(KEY)
        await until(lambda: world.status.state == "Succeeded")
        loop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loop

    caplog.set_level(logging.ERROR)
    play(job(worker=2), story)
    failures = [record for record in caplog.records if "failed; retrying in" in record.getMessage()]
    assert len(failures) == 2, "a conflict is no failure"


class Counts(Hooks):
    """How passes ended, and how many retries there were."""

    def __init__(self) -> None:
        self.results: list[str] = []
        self.retries = 0

    def retried(self) -> None:
        self.retries += 1

    def reconciled(self, key: Key, result: str, seconds: float) -> None:
        assert seconds >= 0
        self.results.append(result)


def test_an_observer_learns_how_passes_end() -> None:
    async def story(world: World) -> None:
        counts = Counts()
        world.controller = Controller(world.cluster, [TFJobKind()], clock=world.clock, hooks=counts)
        faults = [Conflict("mnist"), OSError("disk full")]

        def before(operation: str, name: str) -> None:
            if faults:
                raise faults.pop()

        world.cluster.before = before
        loop = asyncio.create_task(world.controller.run())
        await until(lambda: world.cluster.pods() != [])
        owner = world.cluster.owners[KEY]
        world.cluster.put(replace(owner, spec=job(worker=1).spec))
        world.cluster.tell(KEY)
        await until(lambda: len(counts.results) == 4)
        assert counts.results == ["error", "error", "requeue_after", "success"]
        assert counts.retries == 2
        loop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loop

    play(job(worker=1, run={"active_deadline_seconds": 3600}), story)


def test_the_loop_wakes_up_for_a_deadline_by_itself() -> None:
    async def story(world: World) -> None:
        world.controller = Controller(world.cluster, [TFJobKind()], clock=lambda: datetime.now(UTC))
        loop = asyncio.create_task(world.controller.run())
        await until(lambda: world.status.state == "Failed")
        assert world.status.reason == "DeadlineExceeded"
        loop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loop

    play(job(worker=1, run={"active_deadline_seconds": 1}), story)
