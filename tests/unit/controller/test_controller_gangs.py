"""The controller and pod groups: made first, kept up to date, never those of others."""

from __future__ import annotations

from typing import Any

import pytest

from support.controller.world import KEY, World, play
from support.golden import Wording
from support.plan.builders import job
from tfjob.api.types import TFJob
from tfjob.controller.cluster import Rejected
from tfjob.controller.kind import Key
from tfjob.plan.build.pods import Settings


def test_the_life_of_a_job_under_a_gang_scheduler(wording: Wording) -> None:
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
        messages = [news.message for news in world.cluster.events if "PodGroup" in news.message]
        assert len(messages) == 2
        wording(*messages)

    play(job(worker=2, ps=1), story)


def test_a_change_of_a_pod_group_that_is_refused_is_said() -> None:
    async def story(world: World) -> None:
        world.settings = Settings(gang_scheduler="volcano")
        world.restart_controller()
        await world.passes(2)
        world.scaled(Worker=3)
        world.refuses(lambda: Rejected("Forbidden", "it may not be changed"), kind="update PodGroup")
        with pytest.raises(Rejected):
            await world.passes(3)
        assert "FailedUpdatePodGroup" in world.said()

    play(job(worker=2, ps=1), story)


def test_the_pod_group_of_something_else_is_neither_used_nor_changed(wording: Wording) -> None:
    async def story(world: World) -> None:
        world.settings = Settings(gang_scheduler="coscheduler")
        world.restart_controller()
        world.cluster.put_foreign("PodGroup", "mnist")
        await world.passes(2)
        assert (world.status.reason, world.cluster.pods()) == ("NameTaken", [])
        assert "PodGroup mnist" in world.status.message
        wording(world.status.message)
        del world.cluster.stored[("PodGroup", "mnist")]
        await world.passes(2)
        assert len(world.cluster.pods()) == 2

    play(job(worker=2), story)


def test_without_a_gang_scheduler_the_cluster_is_not_asked_for_groups() -> None:
    async def story(world: World) -> None:
        asked, genuine = [], world.cluster.children

        async def children(child: Any, key: Key, owner: TFJob) -> list[Any]:
            asked.append(child.__name__)
            return await genuine(child, key, owner)

        world.cluster.children = children  # type: ignore[method-assign,assignment]
        await world.controller.reconcile(KEY)
        assert asked == ["Pod", "Service", "ConfigMap", "Deployment"]

    play(job(worker=1), story)


# --- the running loop -------------------------------------------------------------------------------------------------
