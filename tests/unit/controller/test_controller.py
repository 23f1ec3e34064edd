"""The loop against a cluster that conflicts, refuses and fails: nothing is lost, nothing is done twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from support.controller.world import KEY, World, play
from support.golden import Wording
from support.plan.builders import job
from tfjob.api.types import TFJob, TFJobStatus
from tfjob.controller.cluster import Conflict, Rejected
from tfjob.controller.hooks import Hooks
from tfjob.controller.kind import Key


def test_status_is_written_once_and_before_anything_is_made() -> None:
    async def story(world: World) -> None:
        await world.passes()
        assert world.cluster.operations == [
            "update_status Pending",
            "create Pod mnist-worker-0",
            "create Pod mnist-worker-1",
            "create Service mnist-worker-0",
            "create Service mnist-worker-1",
        ]
        world.cluster.operations.clear()
        world.runs()
        await world.passes(3)
        assert world.cluster.operations == ["update_status Running"], "quiet when nothing changes"

    play(job(worker=2), story)


def test_when_the_status_write_conflicts_nothing_is_done_or_said() -> None:
    async def story(world: World) -> None:
        world.refuses(lambda: Conflict("mnist"), kind="update_status")
        with pytest.raises(Conflict):
            await world.passes()
        assert (world.cluster.pods(), world.cluster.events) == ([], [])

    play(job(worker=2), story)


def test_a_status_whose_answer_was_lost_is_told_by_the_next_pass() -> None:
    """The write was carried out: its events and its counts are not lost with the answer."""

    async def story(world: World) -> None:
        await world.passes(2)
        world.runs()
        world.ends("mnist-worker-0", 0)
        world.cluster.events.clear()
        world.controller.hooks = observer = Counting()
        genuine = world.cluster.update_status

        async def lost(key: Key, owner: TFJob) -> TFJob:
            await genuine(key, owner)
            raise OSError("no answer in time")

        world.cluster.update_status = lost  # type: ignore[method-assign]
        with pytest.raises(OSError, match="no answer"):
            await world.passes()
        assert (world.said(), observer.changes) == ([], 0)
        world.cluster.update_status = genuine  # type: ignore[method-assign]
        await world.passes()
        assert (world.said()[0], observer.changes) == ("TFJobSucceeded", 1)

    play(job(worker=2), story)


class Counting(Hooks):
    """Counts the changes that it is told."""

    changes = 0

    def status_changed(self, key: Key, before: TFJobStatus, after: TFJobStatus) -> None:
        self.changes += 1


def test_a_status_that_is_refused_is_said() -> None:
    """A stored job may break the schema of a CRD that came after it: without a word it would never move."""

    async def story(world: World) -> None:
        world.refuses(lambda: Rejected("Invalid", "spec.x: Invalid value"), kind="update_status")
        with pytest.raises(Rejected):
            await world.passes()
        assert world.said() == ["FailedUpdateStatus"]
        assert world.cluster.events[0].warning

    play(job(worker=2), story)


def test_a_job_that_changed_since_it_was_read_is_not_overwritten() -> None:
    async def story(world: World) -> None:
        def before(operation: str, name: str) -> None:
            world.cluster.before = lambda *_: None
            owner = world.cluster.owners[KEY]
            run_policy = replace(owner.spec.run_policy, suspend=True)
            world.cluster.put(replace(owner, spec=replace(owner.spec, run_policy=run_policy)))

        world.cluster.before = before
        with pytest.raises(Conflict):
            await world.passes()
        await world.passes()
        assert (world.status.state, world.cluster.pods()) == ("Suspended", [])

    play(job(worker=2), story)


def test_a_restart_is_recorded_before_its_pods_are_deleted() -> None:
    async def story(world: World) -> None:
        await world.passes()
        world.runs()
        await world.passes()
        world.ends("mnist-worker-0", 137)
        world.cluster.operations.clear()
        world.refuses(lambda: OSError("disk full"), kind="update_status")
        with pytest.raises(OSError, match="disk full"):
            await world.passes()
        assert world.cluster.operations == []
        assert len(world.cluster.pods()) == 2, "the exit code is still there to be seen"
        world.refuses(None)
        await world.passes()
        assert world.cluster.operations[:3] == [
            "update_status Restarting",
            "delete Pod mnist-worker-0",
            "delete Pod mnist-worker-1",
        ]
        assert (world.status.restarts, world.status.retries) == (1, 1)

    play(job(worker=2), story)


@pytest.mark.parametrize("crash_at", range(14))
def test_a_controller_may_die_before_any_operation(crash_at: int) -> None:
    """Killed before its nth operation and started again, it brings the job to the same end, with the same counts."""

    class Killed(BaseException):
        pass

    async def story(world: World) -> None:
        count, dead = 0, False

        def before(operation: str, name: str) -> None:
            nonlocal count, dead
            count += 1
            dead = dead or count == crash_at + 1
            if dead:
                raise Killed

        world.cluster.before = before

        async def settle() -> None:
            nonlocal dead
            for _ in range(4):
                try:
                    await world.passes()
                except Killed:
                    dead = False
                    world.restart_controller()

        await settle()
        world.runs()
        await settle()
        world.ends("mnist-worker-0", 137)
        await settle()
        assert world.cluster.pods() == ["mnist-worker-0", "mnist-worker-1"]
        world.runs()
        await settle()
        assert (world.status.state, world.status.restarts, world.status.attempt) == ("Running", 1, 2)
        world.ends("mnist-worker-0", 0)
        await settle()
        assert (world.status.state, world.status.restarts, world.cluster.pods()) == ("Succeeded", 1, ["mnist-worker-0"])

    play(job(worker=2), story)


def test_a_pod_that_exists_already_and_is_ours_is_fine() -> None:
    async def story(world: World) -> None:
        await world.passes()
        owner = world.cluster.owners[KEY]
        world.cluster.put(replace(owner, status=TFJobStatus()))
        stale = world.cluster.children

        async def nothing_yet(child: Any, key: Key, owner: TFJob) -> list[Any]:
            return []

        world.cluster.children = nothing_yet  # type: ignore[method-assign,assignment]
        await world.passes()
        world.cluster.children = stale  # type: ignore[method-assign]
        await world.passes()
        assert (world.status.reason, len(world.cluster.pods())) == ("Starting", 2)
        assert "FailedCreatePod" not in world.said()

    play(job(worker=2), story)


def test_a_name_that_is_taken_is_neither_adopted_nor_deleted_and_shown(wording: Wording) -> None:
    async def story(world: World) -> None:
        world.cluster.put_foreign("Pod", "mnist-worker-0")
        await world.passes(2)
        assert (world.status.state, world.status.reason) == ("Pending", "NameTaken")
        assert "mnist-worker-0" in world.status.message
        wording(world.status.message)
        assert ("Pod", "mnist-worker-0") in world.cluster.stored
        del world.cluster.stored[("Pod", "mnist-worker-0")]
        await world.passes(2)
        assert (world.status.reason, world.cluster.pods()) == ("Starting", ["mnist-worker-0"])

    play(job(worker=1), story)


def test_a_service_name_that_is_taken_is_shown_although_its_pod_runs(wording: Wording) -> None:
    async def story(world: World) -> None:
        world.cluster.put_foreign("Service", "mnist-worker-0")
        await world.passes(2)
        assert (world.status.reason, "service" in world.status.message) == ("NameTaken", True)
        wording(world.status.message)

    play(job(worker=1), story)


def test_a_pod_that_is_refused_as_invalid_fails_the_job() -> None:
    async def story(world: World) -> None:
        world.refuses(lambda: Rejected("Invalid", "spec.containers[0].image: required"))
        await world.passes(2)
        assert (world.status.state, world.status.reason) == ("Failed", "Invalid")
        assert "image: required" in world.status.message

    play(job(worker=1), story)


def test_a_refusal_is_said_once_tried_again_and_its_grace_counts_from_the_first() -> None:
    async def story(world: World) -> None:
        world.refuses(lambda: Rejected("Denied", "by a policy"))
        for _ in range(5):
            await world.passes()
            world.clock.wait(10)
        assert (world.status.state, world.status.reason) == ("Pending", "Denied")
        assert world.said().count("FailedCreatePod") == 1
        world.clock.wait(300)
        await world.passes()
        assert (world.status.state, world.status.reason) == ("Failed", "Denied")

    play(job(worker=1), story)


def test_a_service_that_is_made_does_not_hide_that_its_pod_was_refused() -> None:
    async def story(world: World) -> None:
        world.refuses(lambda: Rejected("QuotaExceeded", "no room"))
        await world.passes(2)
        assert ("Service", "mnist-worker-0") in world.cluster.stored
        assert world.status.reason == "QuotaExceeded"

    play(job(worker=1), story)


def test_a_refusal_ends_with_the_wish() -> None:
    async def story(world: World) -> None:
        world.refuses(lambda: Rejected("Denied", "by a policy"), kind="create Pod mnist-worker-1")
        await world.passes(2)
        world.runs("mnist-worker-0")
        world.scaled(Worker=1)
        await world.passes(3)
        world.clock.wait(1000)
        world.runs()
        await world.passes()
        assert (world.status.state, world.status.reason) == ("Running", "")

    play(job(worker=2, ps=1), story)


def test_the_refusals_of_a_job_do_not_concern_the_next_of_its_name() -> None:
    async def story(world: World) -> None:
        world.refuses(lambda: Rejected("Invalid", "bad"))
        await world.passes()
        world.refuses(None)
        fresh = job(worker=1)
        world.cluster.put(replace(fresh, metadata=replace(fresh.metadata, uid="another")))
        world.cluster.stored.clear()
        await world.passes()
        assert world.status.state == "Pending"

    play(job(worker=1), story)


def test_what_a_finished_job_leaves_is_removed_behind_the_jobs_that_go_on() -> None:
    """The pass that ends a job removes nothing itself: under load that would keep other jobs waiting."""

    async def story(world: World) -> None:
        await world.passes(2)
        world.runs()
        world.ends("mnist-worker-0", 0)
        world.cluster.operations.clear()
        await world.controller.reconcile(KEY)
        assert world.status.state == "Succeeded"
        assert not [operation for operation in world.cluster.operations if operation.startswith("delete")]
        running = asyncio.create_task(world.controller.run())
        while "delete Pod mnist-worker-1" not in world.cluster.operations:
            await asyncio.sleep(0.01)
        running.cancel()

    play(job(worker=2), story)


def test_a_finished_job_is_removed_when_its_time_to_live_is_0() -> None:
    async def story(world: World) -> None:
        await world.passes()
        world.runs()
        await world.passes()
        world.ends("mnist-worker-0", 0)
        again = await world.passes()
        assert again == world.clock.now, "it asks to be woken at once"
        await world.passes()
        assert KEY not in world.cluster.owners
        assert await world.passes() is None

    play(job(worker=1, run={"ttl_seconds_after_finished": 0}), story)


# --- actions together -------------------------------------------------------------------------------------------------


async def half_deleted(world: World) -> None:
    """A gang whose worker was killed starts again, and the deletions of its old pods are cut short."""
    await world.passes(2)
    world.runs()
    await world.passes(2)
    world.ends("mnist-worker-0", 137)
    world.cluster.cuts_deletions_short = True
    await world.passes(2)
    assert world.status.state == "Restarting"
    world.cluster.operations.clear()
    world.cluster.events.clear()


def test_a_pod_that_does_not_go_is_deleted_again_ever_more_seldom(wording: Wording) -> None:
    async def story(world: World) -> None:
        await half_deleted(world)
        begun, times = world.clock.now, []
        for _ in range(700):
            before = len(world.cluster.operations)
            # Other events wake the job every second.
            await world.passes()
            if world.cluster.operations[before:]:
                times.append((world.clock.now - begun).total_seconds())
                assert world.cluster.operations[before:] == ["delete Pod mnist-chief-0", "delete Pod mnist-worker-0"]
            world.clock.wait(1)
        assert times == [30, 90, 210, 450]
        assert world.said() == ["RepeatedDelete"] * 8
        news = world.cluster.events[-1]
        assert ("mnist-worker-0" in news.message, news.warning) == (True, True)
        wording(news.message)

    play(job(chief=1, worker=1), story)


def test_time_alone_brings_back_a_job_whose_deletions_were_cut_short() -> None:
    async def story(world: World) -> None:
        await half_deleted(world)
        world.restart_controller()
        world.cluster.cuts_deletions_short = False
        again = await world.passes()
        assert again is not None
        assert world.cluster.operations == []
        world.clock.now = again
        await world.passes(3)
        world.runs()
        await world.passes(2)
        assert (world.status.state, world.status.restarts) == ("Running", 1)

    play(job(chief=1, worker=1), story)


def test_a_repeated_deletion_that_fails_waits_its_time_too() -> None:
    async def story(world: World) -> None:
        await half_deleted(world)
        world.clock.wait(30)
        world.refuses(lambda: OSError("no route"), kind="delete")
        with pytest.raises(OSError, match="no route"):
            await world.passes()
        world.refuses(None)
        world.clock.wait(30)
        await world.passes()
        assert (world.cluster.operations, world.said()) == ([], [])
        world.clock.wait(30)
        await world.passes()
        assert world.said() == ["RepeatedDelete"] * 2

    play(job(chief=1, worker=1), story)
