"""A cluster in memory with one job, a clock that is set by hand, and a controller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from support.controller.memory_cluster import MemoryCluster
from support.plan.builders import T0
from tfjob.api.objects import ContainerState, ContainerStatus, ContainerTerminated, PodStatus
from tfjob.api.types import KIND, TFJob, TFJobStatus
from tfjob.controller.controller import Controller
from tfjob.controller.kind import Key
from tfjob.plan.build.pods import Settings
from tfjob.plan.kind import TFJobKind

KEY = Key("default", "mnist", KIND)


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
        self.cluster.clock = self.clock
        self.cluster.put(owner)
        self.settings = Settings()
        self.restart_controller()

    @property
    def status(self) -> TFJobStatus:
        status: TFJobStatus = self.cluster.owners[KEY].status
        return status

    async def passes(self, count: int = 1) -> datetime | None:
        again = None
        for _ in range(count):
            again = await self.controller.reconcile(KEY)
            await self.controller.clean_up(KEY)
        return again

    def restart_controller(self) -> None:
        self.controller = Controller(
            self.cluster, [TFJobKind(self.settings)], clock=self.clock, durations=self.settings.durations
        )

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
        owner = self.cluster.owners[KEY]
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
        return [news.reason for news in self.cluster.events]


def play(owner: TFJob, story: Any) -> None:
    async def run() -> None:
        await asyncio.wait_for(story(World(owner)), timeout=60)

    asyncio.run(run())
