"""The one process that drives a run: its controller and its kubelet, under a lock, until nothing is left to do.

An attached `run` drives in its own process and holds a lifeline: when it dies, in whatever way, the supervisors end
their pods. A detached run is driven in the background; that process may be killed too, its pods go on, and the next
command starts another one.
"""

from __future__ import annotations

import asyncio
import dataclasses
import fcntl
import logging
import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from tfjob.api.objects import Deployment, Pod
from tfjob.controller.actions import Event
from tfjob.controller.controller import Controller
from tfjob.durations import durations_from
from tfjob.local.pod.machine import machine_of
from tfjob.local.pod.network import Network
from tfjob.local.run.cluster import LocalCluster
from tfjob.local.run.driver_lock import acquire_driver_lock, is_settled
from tfjob.local.run.kubelet import Kubelet
from tfjob.local.run.pod_folder import pod_folder
from tfjob.local.run.tensorboard import TensorBoardProcess
from tfjob.local.run.wakeups import Wakeups
from tfjob.local.sandbox import supervisor
from tfjob.local.state.home import Home, boot_id
from tfjob.local.state.provenance import list_packages
from tfjob.local.state.store import Run, Store, open_store
from tfjob.local.volumes.claims import Claims
from tfjob.local.volumes.job_storage import SETTINGS, discard_unused
from tfjob.local.warm.start import WarmStart
from tfjob.plan.build.pods import Settings
from tfjob.plan.facts.conditions import is_finished
from tfjob.plan.kind import TFJobKind
from tfjob.plan.policy.suspension import STOPPED, suspended

logger = logging.getLogger(__name__)

TICK_SECONDS = 0.05
"""Between two looks at replicas that are told to end."""


class AlreadyDriven(Exception):
    """Another process drives this run."""


class Driver:
    """Drives one run in this process."""

    def __init__(
        self,
        home: Home,
        store: Store,
        run: Run,
        *,
        attached: bool,
        lock: int | None = None,
        on_news: Callable[[Event], None] | None = None,
        settings: Settings = SETTINGS,
    ) -> None:
        self.home = home
        self.store = store
        self.uid = run.job.metadata.uid
        self.folder = run.folder
        self.attached = attached
        self._lock = lock
        self._troubles: dict[str, str] = {}
        self._given_up = False
        self._wakeups: Wakeups | None = None
        machine = machine_of(home, store, run)
        network = Network(store, run, machine.level)
        cluster = LocalCluster(store, self.uid, network, on_news)
        self.cluster = cluster
        durations = durations_from(os.environ)
        kinds = [TFJobKind(dataclasses.replace(settings, durations=durations))]
        self.controller = Controller(cluster, kinds, durations=durations)
        self.board = TensorBoardProcess(machine, run.folder, lambda news: cluster.publish(run.key, run.job, news))
        self.kubelet = Kubelet(
            store,
            run,
            machine,
            network,
            lifeline=run.folder / "lifeline" if attached else None,
            publish=lambda news: cluster.publish(run.key, run.job, news),
            warm=WarmStart(home, machine) if machine.warm is not False else None,
            durations=durations,
        )

    async def drive(self, tick: Callable[[], None] = lambda: None) -> None:
        """Works until the run has ended, is suspended or is gone; calls `tick` at every look."""
        with self._right_to_drive(), self._lifeline():
            self.store.set_attached(self.uid, attached=self.attached, boot=boot_id())
            packages = list_packages(self.folder)
            wakeups = self._wakeups = Wakeups()
            for folder in (self.home.database.parent, self.folder):
                wakeups.watch(folder)
            controller = asyncio.create_task(self.controller.run())
            try:
                while not (self._given_up or is_settled(self.store, self.uid)):
                    self._look(tick)
                    self._watch_pods(wakeups)
                    if controller.done():
                        await controller
                    await wakeups.pause()
                if self.attached:
                    await self._stop_what_is_left(tick)
            finally:
                wakeups.close()
                self.board.close()
                if self.kubelet.warm is not None:
                    self.kubelet.warm.close()
                controller.cancel()
                with suppress(asyncio.CancelledError):
                    await controller
                if packages is not None:
                    packages.wait()
            self._tidy()
            tick()

    def stop(self, reason: str = STOPPED) -> None:
        """Suspends the job, so that its replicas can end in order and `resume` can go on."""
        try:
            self.store.update_job(self.uid, lambda job: job if is_finished(job.status) else suspended(job, reason))
        except sqlite3.Error as error:
            self._complain("stop", error)
            self._given_up = True

    def kill(self) -> None:
        """Ends every replica that is stopping at once."""
        self.kubelet.hurry = True
        if self._wakeups:
            self._wakeups.wake()

    def _look(self, tick: Callable[[], None]) -> None:
        for part in (self.kubelet.sync, self._keep_board, self._collect):
            try:
                part()
            except (OSError, sqlite3.Error) as error:
                # A full disk, mostly: what runs goes on, and the next look tries again.
                self._complain(part.__name__, error)
        self.cluster.look()
        tick()

    def _watch_pods(self, wakeups: Wakeups) -> None:
        """Looks again when a supervisor reports, ends, or writes to a log, and when a fork server is up."""
        for folder in self.kubelet.warm.folders if self.kubelet.warm is not None else ():
            wakeups.watch(folder)
        for pod in self.store.children(Pod, self.uid):
            folder = pod_folder(self.folder, pod)
            wakeups.watch(folder)
            for container in (*(pod.spec.get("initContainers") or ()), *(pod.spec.get("containers") or ())):
                wakeups.watch(folder / "logs" / container["name"])

    def _complain(self, part: str, error: Exception) -> None:
        """Says once what goes wrong in a part, however often it is tried."""
        if str(error) != self._troubles.get(part):
            self._troubles[part] = str(error)
            logger.warning("%s; trying again", error)

    def _keep_board(self) -> None:
        self.board.sync(next(iter(self.store.children(Deployment, self.uid)), None))

    def _collect(self) -> None:
        """Ends the pods of a job that is being deleted, then frees its name."""
        run = self.store.run(self.uid)
        if run is None or run.job.metadata.deletion_timestamp is None:
            return
        pods = self.store.children(Pod, self.uid)
        for pod in pods:
            if pod.metadata.deletion_timestamp is None:
                when = run.job.metadata.deletion_timestamp
                self.store.update_child(replace(pod, metadata=replace(pod.metadata, deletion_timestamp=when)))
        if not pods:
            self.store.retire(self.uid)

    def _tidy(self) -> None:
        run = self.store.run(self.uid)
        if run is not None:
            with suppress(OSError, sqlite3.Error):
                discard_unused(run.job, self.store, Claims(self.home.claims))

    async def _stop_what_is_left(self, tick: Callable[[], None]) -> None:
        """`cleanPodPolicy: None` keeps pods, but nothing outlives an attached run."""
        run = self.store.run(self.uid)
        pods = self.store.children(Pod, self.uid) if run else []
        folders = [pod_folder(self.folder, pod) for pod in pods]
        for folder in folders:
            supervisor.stop(folder)
        while any(supervisor.alive(folder) for folder in folders):
            for folder in folders if self.kubelet.hurry else ():
                supervisor.kill(folder)
            self._look(tick)
            await asyncio.sleep(TICK_SECONDS)
        self._look(tick)

    @contextmanager
    def _right_to_drive(self) -> Iterator[None]:
        lock = acquire_driver_lock(self.folder) if self._lock is None else self._lock
        if lock is None:
            raise AlreadyDriven(str(self.folder))
        try:
            yield
        finally:
            self._lock = None
            os.close(lock)

    @contextmanager
    def _lifeline(self) -> Iterator[None]:
        """Supervisors of an attached run watch this lock, and end their pods when it is free."""
        if not self.attached:
            yield
            return
        descriptor = os.open(self.folder / "lifeline", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def main(arguments: list[str]) -> None:
    """The background process: `HOME UID LOCK`, where LOCK is the descriptor that it was born with."""
    home, uid, lock = Home(Path(arguments[0])), arguments[1], int(arguments[2])
    os.set_inheritable(lock, False)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    store = open_store(home.database)
    run = store.run(uid)
    if run is not None:
        asyncio.run(Driver(home, store, run, attached=False, lock=lock).drive())


if __name__ == "__main__":
    main(sys.argv[1:])
