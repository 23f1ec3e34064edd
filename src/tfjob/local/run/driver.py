"""The one process that drives a run and everything that it owns, under a lock, until nothing is left to do.

An attached `run` drives in its own process and holds a lifeline: when the process ends, for any reason, the supervisors
end their pods. A detached run has a driver in the background. If that process is killed, its pods keep running, and the
next command starts another driver.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import math
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfjob.api.objects import Pod, Service
from tfjob.controller.actions import Event
from tfjob.controller.controller import Controller
from tfjob.controller.kind import STOPPED, Kind
from tfjob.durations import durations_from
from tfjob.local.pod.assembly import Machine, grace_of
from tfjob.local.pod.machine import machine_of
from tfjob.local.pod.network import LOOPBACK, Network, is_forwarded
from tfjob.local.run.cluster import LocalCluster
from tfjob.local.run.driver_lock import acquire_driver_lock, suspend
from tfjob.local.run.kubelet import Kubelet
from tfjob.local.run.pod_folder import pod_folder
from tfjob.local.run.tensorboard import announcement, is_tensorboard
from tfjob.local.run.wakeups import Wakeups
from tfjob.local.sandbox import supervisor
from tfjob.local.state.errors import Refusal
from tfjob.local.state.home import Home, boot_id
from tfjob.local.state.provenance import list_packages
from tfjob.local.state.store import Run, Store
from tfjob.local.volumes.claims import Claims
from tfjob.local.volumes.job_storage import discard_unused
from tfjob.local.warm.start import WarmStart

if TYPE_CHECKING:
    from tfjob.local.run.services import Services

logger = logging.getLogger(__name__)

RUNNING = "Running"
TICK_SECONDS = 0.05
"""Between two checks of pods that are ending."""


class AlreadyDriven(Exception):
    """Another process drives this run."""


class Driver:
    """Drives one root run and everything that it owns, in this process."""

    def __init__(
        self,
        home: Home,
        store: Store,
        run: Run,
        kinds: Iterable[Kind[Any]],
        *,
        attached: bool,
        lock: int | None = None,
        on_news: Callable[[Event], None] | None = None,
    ) -> None:
        self.home = home
        self.store = store
        self.uid = run.uid
        self.kind = run.key.kind
        self.folder = run.folder
        self.attached = attached
        self._lock = lock
        self._troubles: dict[str, str] = {}
        self._given_up = False
        self._judged = -1
        """The version of the store that this driver last checked for remaining work."""
        self._wakeups: Wakeups | None = None
        self._machines: dict[str, Machine] = {}
        self._services: Services | None = None
        machine, durations = self._machine(run), durations_from(os.environ)
        network = self._network = Network(store, run.uid, machine.level)
        kinds = list(kinds)
        self.cluster = LocalCluster(home, store, run, kinds, network, on_news)
        self.controller = Controller(self.cluster, kinds, durations=durations)
        self.kubelet = Kubelet(
            store=store,
            root=run.uid,
            machine_of=self._machine,
            network=network,
            lifeline=run.folder / "lifeline" if attached else None,
            publish=lambda owner, event: self.cluster.publish_about(owner.uid, event),
            is_finished=self._is_finished,
            has_read=self.cluster.has_read,
            warm=WarmStart(home, machine, durations) if machine.warm is not False else None,
            durations=durations,
        )

    async def drive(self, tick: Callable[[], None] = lambda: None) -> None:
        """Work until the run has ended, is suspended or is deleted; call `tick` in every round."""
        with self._right_to_drive():
            self.store.set_attached(self.uid, attached=self.attached, boot=boot_id())
            packages = list_packages(self.folder)
            wakeups = self._wakeups = Wakeups(self.kubelet.durations)
            for folder in (self.home.database.parent, self.folder):
                wakeups.watch(folder)
            controller = asyncio.create_task(self.controller.run())
            try:
                while not (self._given_up or await self._is_over()):
                    self._look(tick)
                    self._watch_pods(wakeups)
                    if controller.done():
                        await controller
                    await wakeups.pause()
                if self.attached:
                    await self._stop_what_is_left(tick)
            finally:
                wakeups.close()
                if self._services is not None:
                    await self._services.close()
                if self.kubelet.warm is not None:
                    self.kubelet.warm.close()
                controller.cancel()
                with suppress(asyncio.CancelledError):
                    await controller
                if packages is not None:
                    packages.wait()
            self._tidy()
            tick()

    def stop(self, reason: str = STOPPED) -> float:
        """Suspend the run, so that its pods end gracefully; return the seconds after which the last one is killed."""
        pods = [pod for pod, _ in self._pods() if pod.status.phase not in ("Succeeded", "Failed")]
        try:
            suspend(self.store, self.uid, self.controller.kinds[self.kind], reason)
        except sqlite3.Error as error:
            self._complain("stop", error)
            self._given_up = True
        return max((grace_of(pod.spec) for pod in pods), default=0.0)

    def kill(self) -> None:
        """End all stopping replicas immediately."""
        self.kubelet.hurry = True
        if self._wakeups:
            self._wakeups.wake()

    async def _is_over(self) -> bool:
        """Return whether the run needs no driver, and if so record until when."""
        version = self.store.version()
        if version == self._judged:
            return False
        self._judged = version
        until = await self._settled_until()
        if until is None:
            return False
        try:
            return self.store.settle(self.uid, until, version)
        except sqlite3.Error as error:  # a full disk: the next command starts another driver
            self._complain("settle", error)
            return True

    async def _settled_until(self) -> float | None:
        """Return the time at which the tree needs a driver again; None if something is left to do now."""
        owners = self._tree()
        if any(self._is_at_work(run) for run in owners):
            return None
        until = math.inf
        for run in owners:
            owner, plan = await self.controller.decide(run.key)
            if owner is None or plan.actions or plan.status != owner.status:
                return None
            if self.attached and run.uid == self.uid and plan.status.state == RUNNING:
                return None  # a server scaled to 0 can be scaled up until Ctrl-C
            if plan.again_at is not None:
                # The end of a TTL if the owner is finished: the first command after it starts a driver.
                if not self._is_finished(run):
                    return None
                until = min(until, plan.again_at.timestamp())
        return until

    def _is_at_work(self, run: Run) -> bool:
        """Return whether a run is under deletion or has unfinished pods; needs no plan, which takes longer."""
        pods = self.store.children(Pod, run.uid)
        terminating = any(pod.metadata.deletion_timestamp for pod in pods)
        deleted = run.stored.metadata.deletion_timestamp is not None
        return deleted or terminating or (bool(pods) and not self._is_finished(run))

    def _is_finished(self, run: Run) -> bool:
        kind = self.controller.kinds[run.key.kind]
        return kind.is_finished(run.decode(kind.owner_type))

    def _look(self, tick: Callable[[], None]) -> None:
        # Services first: an ending pod gets no new connections, and a new pod finds every name.
        for part in (self._forward, self.kubelet.sync, self.cluster.collect, self.cluster.store_events):
            try:
                part()
            except (OSError, sqlite3.Error, Refusal) as error:
                # Usually a full disk, or no free port. Pods keep running, and the next round retries.
                self._complain(part.__name__, error)
        self.cluster.look()
        tick()

    def _watch_pods(self, wakeups: Wakeups) -> None:
        """Wake up when a supervisor reports, ends, or writes to a log, and when a fork server is ready."""
        for folder in self.kubelet.warm.folders if self.kubelet.warm is not None else ():
            wakeups.watch(folder)
        for pod, folder in self._pods():
            wakeups.watch(folder)
            for container in (*(pod.spec.get("initContainers") or ()), *(pod.spec.get("containers") or ())):
                wakeups.watch(folder / "logs" / container["name"])

    def _complain(self, part: str, error: Exception) -> None:
        """Log the problem of a part once, however often the part is retried."""
        if str(error) != self._troubles.get(part):
            self._troubles[part] = str(error)
            logger.warning("%s; retrying", error)

    def _machine(self, run: Run) -> Machine:
        if run.uid not in self._machines:
            self._machines[run.uid] = machine_of(self.home, self.store, run)
        return self._machines[run.uid]

    def _forward(self) -> None:
        services = [one for run in self._tree() for one in self.store.children(Service, run.uid) if is_forwarded(one)]
        if self._services is None:
            if not services:
                return
            from tfjob.local.run.services import Services  # imported late: few runs need it

            self._services = Services(self._network, self._announce, self._warn)
        self._services.sync(services, [pod for pod, _ in self._pods()])
        self.cluster.publish_notes(self.uid)

    def _announce(self, service: Service, pod: Pod) -> None:
        ports = self._network.publish(service)
        run = self.store.run(pod.metadata.owner_references[0].uid)
        if run is not None and is_tensorboard(pod):
            url = f"http://{LOOPBACK}:{next(iter(ports.values()))}/"
            event = announcement(pod, self._machine(run), pod_folder(run.folder, pod), url)
        else:
            places = ", ".join(f"port {port} at {LOOPBACK}:{outside}" for port, outside in ports.items())
            event = Event("ServiceReady", f"Service {service.metadata.name} is ready: {places}")
        self.cluster.publish_about(service.metadata.owner_references[0].uid, event)

    def _warn(self, service: Service, reason: str) -> None:
        event = Event("ServiceFailed", f"Service {service.metadata.name} cannot listen: {reason}", warning=True)
        self.cluster.publish_about(service.metadata.owner_references[0].uid, event)

    def _tree(self) -> list[Run]:
        return self.store.tree(self.uid)

    def _pods(self) -> list[tuple[Pod, Path]]:
        return [(pod, pod_folder(run.folder, pod)) for run in self._tree() for pod in self.store.children(Pod, run.uid)]

    def _tidy(self) -> None:
        claims = Claims(self.home.claims)
        for run in self.store.tree(self.uid, everything=True):
            with suppress(OSError, sqlite3.Error):
                discard_unused(run.key, self.store, claims)

    async def _stop_what_is_left(self, tick: Callable[[], None]) -> None:
        """End the pods that `cleanPodPolicy: None` keeps: nothing outlives an attached run."""
        folders = [folder for _, folder in self._pods()]
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
        """Hold the driver's lock and, if attached, the lifeline: supervisors end their pods when it is released."""
        lock = acquire_driver_lock(self.folder) if self._lock is None else self._lock
        if lock is None:
            raise AlreadyDriven(str(self.folder))
        held = [lock]
        try:
            if self.attached:
                held.append(os.open(self.folder / "lifeline", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
                fcntl.flock(held[-1], fcntl.LOCK_EX)
            yield
        finally:
            self._lock = None
            for descriptor in reversed(held):
                os.close(descriptor)
