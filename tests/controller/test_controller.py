"""The loop against a cluster that conflicts, refuses and fails: nothing is lost, nothing is done twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controller.memory_cluster import MemoryCluster
from plan.builders import T0, job
from tfjob.api.objects import ContainerState, ContainerStatus, ContainerTerminated, PodStatus
from tfjob.api.types import TFJob, TFJobStatus
from tfjob.controller.cluster import Conflict, Key, Refused
from tfjob.controller.controller import AT_ONCE, Controller
from tfjob.controller.observer import Unobserved
from tfjob.plan.children import Settings

KEY = Key("default", "mnist")


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = T0

    def __call__(self) -> datetime:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class World:
    """A cluster with one job, and a controller for it."""

    def __init__(self, owner: TFJob) -> None:
        self.cluster, self.clock = MemoryCluster(), Clock()
        self.cluster.put(owner)
        self.settings = Settings()
        self.restart_controller()

    @property
    def status(self) -> TFJobStatus:
        return self.cluster.jobs[KEY].status

    async def passes(self, count: int = 1) -> datetime | None:
        again = None
        for _ in range(count):
            again = await self.controller.reconcile(KEY)
            await self.controller.clean_up(KEY)
        return again

    def restart_controller(self) -> None:
        self.controller = Controller(self.cluster, self.settings, clock=self.clock)

    def runs(self, *names: str) -> None:
        for name in names or self.cluster.pods():
            self.cluster.set_pod(
                name, PodStatus(phase="Running", container_statuses=[ContainerStatus(name="tensorflow")])
            )

    def ends(self, name: str, code: int) -> None:
        ended = ContainerTerminated(exit_code=code, started_at=T0, finished_at=self.clock.now)
        container = ContainerStatus(name="tensorflow", state=ContainerState(terminated=ended))
        phase = "Failed" if code else "Succeeded"
        self.cluster.set_pod(name, PodStatus(phase=phase, container_statuses=[container]))

    def scaled(self, **counts: int) -> None:
        owner = self.cluster.jobs[KEY]
        specs = dict(owner.spec.tf_replica_specs)
        for kind, count in counts.items():
            specs[kind] = replace(specs[kind], replicas=count)
        self.cluster.put(replace(owner, spec=replace(owner.spec, tf_replica_specs=specs)))

    def refuses(self, error: Callable[[], Exception] | None, kind: str = "create Pod") -> None:
        def before(operation: str, name: str) -> None:
            if error and f"{operation} {name}".startswith(kind):
                raise error()

        self.cluster.before = before

    def said(self) -> list[str]:
        return [news.reason for news in self.cluster.news]


def play(owner: TFJob, story: Any) -> None:
    async def run() -> None:
        await asyncio.wait_for(story(World(owner)), timeout=60)

    asyncio.run(run())


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
        assert (world.cluster.pods(), world.cluster.news) == ([], [])

    play(job(worker=2), story)


def test_a_status_whose_answer_was_lost_is_told_by_the_next_pass() -> None:
    """The write was carried out: its events and its counts are not lost with the answer."""

    async def story(world: World) -> None:
        await world.passes(2)
        world.runs()
        world.ends("mnist-worker-0", 0)
        world.cluster.news.clear()
        world.controller.observer = observer = Counting()
        genuine = world.cluster.update_status

        async def lost(owner: TFJob) -> TFJob:
            await genuine(owner)
            raise OSError("no answer in time")

        world.cluster.update_status = lost  # type: ignore[method-assign,assignment]
        with pytest.raises(OSError, match="no answer"):
            await world.passes()
        assert (world.said(), observer.changes) == ([], 0)
        world.cluster.update_status = genuine  # type: ignore[method-assign]
        await world.passes()
        assert (world.said()[0], observer.changes) == ("TFJobSucceeded", 1)

    play(job(worker=2), story)


class Counting(Unobserved):
    """Counts the changes that it is told."""

    changes = 0

    def status_changed(self, key: Key, before: TFJobStatus, after: TFJobStatus) -> None:
        self.changes += 1


def test_a_status_that_is_refused_is_said() -> None:
    """A stored job may break the schema of a CRD that came after it: without a word it would never move."""

    async def story(world: World) -> None:
        world.refuses(lambda: Refused("Invalid", "spec.x: Invalid value"), kind="update_status")
        with pytest.raises(Refused):
            await world.passes()
        assert world.said() == ["FailedUpdateStatus"]
        assert world.cluster.news[0].warning

    play(job(worker=2), story)


def test_a_job_that_changed_since_it_was_read_is_not_overwritten() -> None:
    async def story(world: World) -> None:
        def before(operation: str, name: str) -> None:
            world.cluster.before = lambda *_: None
            owner = world.cluster.jobs[KEY]
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
        owner = world.cluster.jobs[KEY]
        world.cluster.put(replace(owner, status=TFJobStatus()))
        stale = world.cluster.children

        async def nothing_yet(kind: Any, owner: TFJob) -> list[Any]:
            return []

        world.cluster.children = nothing_yet  # type: ignore[method-assign,assignment]
        await world.passes()
        world.cluster.children = stale  # type: ignore[method-assign]
        await world.passes()
        assert (world.status.reason, len(world.cluster.pods())) == ("Starting", 2)
        assert "FailedCreatePod" not in world.said()

    play(job(worker=2), story)


def test_a_name_that_is_taken_is_neither_adopted_nor_deleted_and_shown() -> None:
    async def story(world: World) -> None:
        world.cluster.put_foreign("Pod", "mnist-worker-0")
        await world.passes(2)
        assert (world.status.state, world.status.reason) == ("Pending", "NameTaken")
        assert "mnist-worker-0 exists" in world.status.message
        assert ("Pod", "mnist-worker-0") in world.cluster.stored
        del world.cluster.stored[("Pod", "mnist-worker-0")]
        await world.passes(2)
        assert (world.status.reason, world.cluster.pods()) == ("Starting", ["mnist-worker-0"])

    play(job(worker=1), story)


def test_a_service_name_that_is_taken_is_shown_although_its_pod_runs() -> None:
    async def story(world: World) -> None:
        world.cluster.put_foreign("Service", "mnist-worker-0")
        await world.passes(2)
        assert (world.status.reason, world.status.message[:17]) == ("NameTaken", "worker-0: service")

    play(job(worker=1), story)


def test_a_pod_that_is_refused_as_invalid_fails_the_job() -> None:
    async def story(world: World) -> None:
        world.refuses(lambda: Refused("Invalid", "spec.containers[0].image: required"))
        await world.passes(2)
        assert (world.status.state, world.status.reason) == ("Failed", "Invalid")
        assert "image: required" in world.status.message

    play(job(worker=1), story)


def test_a_refusal_is_said_once_tried_again_and_its_grace_counts_from_the_first() -> None:
    async def story(world: World) -> None:
        world.refuses(lambda: Refused("Denied", "by a policy"))
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
        world.refuses(lambda: Refused("QuotaExceeded", "no room"))
        await world.passes(2)
        assert ("Service", "mnist-worker-0") in world.cluster.stored
        assert world.status.reason == "QuotaExceeded"

    play(job(worker=1), story)


def test_a_refusal_ends_with_the_wish() -> None:
    async def story(world: World) -> None:
        world.refuses(lambda: Refused("Denied", "by a policy"), kind="create Pod mnist-worker-1")
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
        world.refuses(lambda: Refused("Invalid", "bad"))
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
        assert KEY not in world.cluster.jobs
        assert await world.passes() is None

    play(job(worker=1, run={"ttl_seconds_after_finished": 0}), story)


# --- actions together -------------------------------------------------------------------------------------------------


def slow(world: World, seconds: float = 0.01) -> list[int]:
    """Makes every write take its time; returns how many were under way at each."""
    under_way, genuine = [0], (world.cluster.create, world.cluster.delete)
    now = 0

    def taking_time(write: Any) -> Any:
        async def slowly(*given: Any) -> None:
            nonlocal now
            now += 1
            under_way.append(now)
            try:
                await asyncio.sleep(seconds)
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
        slow(world, seconds=0.05)
        stopped = asyncio.create_task(world.passes())
        await asyncio.sleep(0.01)
        stopped.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopped
        await asyncio.sleep(0.1)
        assert world.cluster.stored == {}

    play(job(worker=3), story)


# --- gang schedulers --------------------------------------------------------------------------------------------------


def test_the_life_of_a_job_under_a_gang_scheduler() -> None:
    async def story(world: World) -> None:
        world.settings = Settings(gang_scheduler="volcano")
        world.restart_controller()
        await world.passes(2)
        assert list(world.cluster.stored) == [("PodGroup", "mnist")]
        assert (world.status.reason, world.said()) == ("PodGroupPending", [])
        world.cluster.set_pod_group("mnist", "Inqueue")
        await world.passes(2)
        world.runs()
        world.scaled(Worker=3)
        world.cluster.operations.clear()
        await world.passes(3)
        assert world.cluster.operations.count("update PodGroup mnist") == 1
        world.runs()
        world.ends("mnist-worker-0", 0)
        await world.passes(2)
        assert world.status.state == "Succeeded"
        assert ("PodGroup", "mnist") not in world.cluster.stored
        assert [news.message for news in world.cluster.news if "PodGroup" in news.message] == [
            "Job has been terminated. Deleting PodGroup",
            "Deleted PodGroup: mnist",
        ]

    play(job(worker=2, ps=1), story)


def test_a_change_of_a_pod_group_that_is_refused_is_said() -> None:
    async def story(world: World) -> None:
        world.settings = Settings(gang_scheduler="volcano")
        world.restart_controller()
        await world.passes(2)
        world.scaled(Worker=3)
        world.refuses(lambda: Refused("Forbidden", "it may not be changed"), kind="update PodGroup")
        with pytest.raises(Refused):
            await world.passes(3)
        assert "FailedUpdatePodGroup" in world.said()

    play(job(worker=2, ps=1), story)


def test_the_pod_group_of_something_else_is_neither_used_nor_changed() -> None:
    async def story(world: World) -> None:
        world.settings = Settings(gang_scheduler="coscheduler")
        world.restart_controller()
        world.cluster.put_foreign("PodGroup", "mnist")
        await world.passes(2)
        assert (world.status.reason, world.cluster.pods()) == ("NameTaken", [])
        assert world.status.message == "PodGroup mnist exists and belongs to something else"
        del world.cluster.stored[("PodGroup", "mnist")]
        await world.passes(2)
        assert len(world.cluster.pods()) == 2

    play(job(worker=2), story)


def test_without_a_gang_scheduler_the_cluster_is_not_asked_for_groups() -> None:
    async def story(world: World) -> None:
        asked, genuine = [], world.cluster.children

        async def children(kind: Any, owner: TFJob) -> list[Any]:
            asked.append(kind.__name__)
            return await genuine(kind, owner)

        world.cluster.children = children  # type: ignore[method-assign,assignment]
        await world.controller.reconcile(KEY)
        assert asked == ["Pod", "Service", "ConfigMap", "Deployment"]

    play(job(worker=1), story)


# --- the running loop -------------------------------------------------------------------------------------------------


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
    failures = [record for record in caplog.records if "failed; again in" in record.getMessage()]
    assert len(failures) == 2, "a conflict is no failure"


class Counts(Unobserved):
    """How passes ended, and how many retries there were."""

    def __init__(self) -> None:
        self.results: list[str] = []
        self.retries = 0

    def retried(self) -> None:
        self.retries += 1

    def reconciled(self, result: str, seconds: float) -> None:
        assert seconds >= 0
        self.results.append(result)


def test_an_observer_learns_how_passes_end() -> None:
    async def story(world: World) -> None:
        counts = Counts()
        world.controller = Controller(world.cluster, clock=world.clock, observer=counts)
        faults = [Conflict("mnist"), OSError("disk full")]

        def before(operation: str, name: str) -> None:
            if faults:
                raise faults.pop()

        world.cluster.before = before
        loop = asyncio.create_task(world.controller.run())
        await until(lambda: world.cluster.pods() != [])
        owner = world.cluster.jobs[KEY]
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
        world.controller = Controller(world.cluster, clock=lambda: datetime.now(UTC))
        loop = asyncio.create_task(world.controller.run())
        await until(lambda: world.status.state == "Failed")
        assert world.status.reason == "DeadlineExceeded"
        loop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loop

    play(job(worker=1, run={"active_deadline_seconds": 1}), story)
