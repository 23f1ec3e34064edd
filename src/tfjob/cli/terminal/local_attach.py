"""An attached run on this machine: this process drives the jobs, shows what they say, and ends with their exit code."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Sequence

from tfjob.api.objects import Pod
from tfjob.cli.context import is_quiet, state
from tfjob.cli.notices import show_troubles
from tfjob.cli.terminal.lines import Display, level
from tfjob.cli.terminal.result import report_result
from tfjob.cli.terminal.screen import Screen, screen_for
from tfjob.jobs.backend import Replica
from tfjob.jobs.logs import container_labels
from tfjob.jobs.progress import Snapshot
from tfjob.launch.local import LocalJobs, submit
from tfjob.local.jobs.backend import record, sync_backend
from tfjob.local.jobs.meter import Meter
from tfjob.local.jobs.replica_states import replicas
from tfjob.local.run.driver import Driver
from tfjob.local.run.pod_folder import pod_folder
from tfjob.local.run.submission import Started
from tfjob.local.state.home import Home
from tfjob.local.state.store import Run, Store, open_store
from tfjob.plan.facts.tasks import task_of
from tfjob.records.log_reader import Follower, Source

HINT = "Ctrl-C stops it, to be resumed; a second one kills it"


def attach(prepared: LocalJobs, output: str, *, plain: bool) -> int:
    """Run every job in this process, show its logs, and return the worst of their exit codes."""
    quiet = output != "text" or is_quiet()
    screen = screen_for(plain=plain or quiet, hint=HINT)
    with state(write=True) as (home, store):
        started = submit(home, store, prepared, attached=True)
        asyncio.run(drive_all(home, started, screen, quiet=quiet))
        left = (store.run(one.run.job.metadata.uid) for one in started)
        records = [record(run) for run in left if run is not None]
        names = [one.run.name for one in started]
        return report_result(sync_backend(home, store), names, records, output, width=screen.width)


class AttachedRun:
    """One run, shown as it goes."""

    def __init__(self, store: Store, run: Run, display: Display) -> None:
        self.store = store
        self.run = run
        self.display = display
        self._follower = Follower([])
        self._followed: set[str] = set()
        self._meter = Meter()
        self._version: list[str] = []
        self._known: list[Replica] = []

    def begin(self) -> None:
        """Says what starts, and what was found on the way there."""
        self.display.begin(f"as {self.run.id}")
        for _, event in self.store.events(self.run.job.metadata.uid):
            self.display.say(event.message, warning=event.warning)

    def tick(self) -> None:
        """Prints a change of state and new lines."""
        run = self.store.run(self.run.job.metadata.uid)
        if run is not None:
            self.display.state(run.job.status)
        self._follow_new_pods()
        for line in () if self.display.is_behind or self.display.is_left else self._follower.poll():
            self.display.line(line)

    async def finish(self) -> None:
        """Prints what is left in the logs, no faster than somebody reads it."""
        self.tick()
        while await self.display.has_reader() and (lines := self._follower.poll()):
            for line in lines:
                self.display.line(line)
            await asyncio.sleep(0)  # whoever wants to leave is heard
        for line in () if self.display.is_left else self._follower.finish():
            self.display.line(line)

    def snapshot(self) -> Snapshot:
        """How the run stands, for a live view."""
        run = self.store.run(self.run.job.metadata.uid) or self.run
        pods = self.store.children(Pod, self.run.job.metadata.uid)
        stands = self._replicas(run, pods)
        running = {task.name: pod for pod in pods if (task := task_of(pod)) and pod.status.phase == "Running"}
        usage = self._meter.measure({name: pod_folder(run.folder, pod) for name, pod in running.items()})
        doing = self.display.doings.look(stands, self._follower.partial())
        return Snapshot(record(run), stands, usage, doing)

    def _replicas(self, run: Run, pods: Sequence[Pod]) -> list[Replica]:
        """As `status` shows them; read again when the job or a pod has changed."""
        version = [run.job.metadata.resource_version, *(pod.metadata.resource_version for pod in pods)]
        if version != self._version:
            self._version, self._known = version, replicas(self.store, run)
        return self._known

    def _follow_new_pods(self) -> None:
        for pod in self.store.children(Pod, self.run.job.metadata.uid):
            if pod.metadata.uid in self._followed:
                continue
            self._followed.add(pod.metadata.uid)
            for source in log_sources(self.run, pod):
                self._follower.add(source)


async def drive_all(home: Home, started: Sequence[Started], screen: Screen, *, quiet: bool) -> None:
    """Drives runs until all are at rest; Ctrl-C stops them, a second one kills."""
    drivers = []
    runs = []
    for one in started:
        # A connection each: what one driver has seen of the store must not hide it from another.
        store = open_store(home.database)
        display = Display(one.run.job, screen, several=len(started) > 1)
        drivers.append(
            Driver(home, store, one.run, attached=True, lock=one.lock, on_news=None if quiet else display.news)
        )
        runs.append(AttachedRun(store, one.run, display))
    level([run.display for run in runs])
    screen.kept += [str(run.run.folder) for run in runs]
    screen.jobs += [run.snapshot for run in runs]
    logger = show_troubles(lambda text: runs[0].display.say(text, warning=True))
    logger.addHandler(logging.FileHandler(runs[0].run.folder / "controller.log", delay=True))
    interrupts = 0
    over = False

    def interrupt() -> None:
        nonlocal interrupts
        interrupts += 1
        if over:
            screen.leave()
            return
        if interrupts == 1:
            screen.tell("stopping; press Ctrl-C again to kill")
        for driver in drivers:
            driver.stop() if interrupts == 1 else driver.kill()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, interrupt)
    try:
        async with screen:
            for run in () if quiet else runs:
                run.begin()
            try:
                ticks = [(lambda: None) if quiet else run.tick for run in runs]
                await asyncio.gather(*(driver.drive(tick) for driver, tick in zip(drivers, ticks, strict=True)))
            finally:
                over = True
                if interrupts:
                    screen.hurry()
                for run in () if quiet else runs:
                    await run.finish()
    finally:
        for driver in drivers:
            driver.store.close()


def log_sources(run: Run, pod: Pod) -> list[Source]:
    """Where the containers of a pod write; the main one is called like its task."""
    task = task_of(pod)
    folder = pod_folder(run.folder, pod) / "logs"
    names = container_labels(task.name if task else pod.metadata.name, pod.spec)
    return [Source(label, folder / container) for container, label in names.items()]
