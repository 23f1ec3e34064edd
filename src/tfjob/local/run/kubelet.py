"""The local kubelet: turns the pods of one run into supervised processes, and reports how they stand.

It keeps nothing in memory that matters: a new one, after this process was killed, finds every pod by its folder.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tfjob.api.objects import (
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    ContainerWaiting,
    Pod,
    PodStatus,
)
from tfjob.controller.actions import Event
from tfjob.durations import USUAL, Durations
from tfjob.local.inputs import gpus
from tfjob.local.inputs.references import MissingReference
from tfjob.local.pod.assembly import Machine, assemble
from tfjob.local.pod.network import Network
from tfjob.local.run.driver_lock import is_driven
from tfjob.local.run.pod_folder import clean, pod_folder, sweep, was_launched
from tfjob.local.sandbox import supervisor
from tfjob.local.sandbox.pod_files import file_version
from tfjob.local.state.errors import Refusal
from tfjob.local.state.home import write_whole
from tfjob.local.state.store import Run, Store
from tfjob.local.volumes.volumes import VolumeError
from tfjob.local.warm.start import COLD, EXPECTED, HOW, TURNED_OFF, WARM, WarmStart
from tfjob.plan.facts.conditions import is_finished
from tfjob.plan.policy.verdict import PEAK_MEMORY

STARTS_AT_ONCE = 8
"""Supervisors that start side by side: each is an interpreter, and more would only wait for the same cores."""
STARTING_SECONDS = 0.5
"""How long one look may start pods: meanwhile nobody sees to Ctrl-C, and to what the others say."""
UNKNOWN = "ContainerStatusUnknown"


class Report(msgspec.Struct, rename="camel"):
    """What we read of a supervisor's status file beside the pod status itself."""

    done: bool = False
    peak_memory: dict[str, int] = {}
    warnings: list[str] = []
    log_lost: int = 0
    cold: dict[str, str] = {}
    fork_failed: str = ""


@dataclass
class _Watched:
    """What is only worth remembering while this process lives."""

    seen: tuple[int, ...] | None = None
    next_try: float = 0.0
    stopping: bool = False
    hurried: bool = False
    told: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class _Begun:
    """A pod whose supervisor is starting."""

    pod: Pod
    folder: Path
    watched: _Watched
    process: subprocess.Popen[bytes]


class Kubelet:
    """The pods of one run on this machine."""

    def __init__(
        self,
        store: Store,
        run: Run,
        machine: Machine,
        network: Network,
        *,
        lifeline: Path | None,
        publish: Callable[[Event], None],
        warm: WarmStart | None = None,
        durations: Durations = USUAL,
    ) -> None:
        self.store = store
        self.durations = durations
        self.run = run
        self.machine = machine
        self.network = network
        self.lifeline = lifeline
        self.publish = publish
        self.warm = warm
        self._told_cold: set[str] = set()
        self.hurry = False
        self._watched: dict[str, _Watched] = {}

    def sync(self) -> None:
        """One look at every pod: start, report, stop, remove; of many that are to start, some wait for the next."""
        until = 0.0
        begun: list[_Begun] = []
        for pod in self.store.children(Pod, self.run.job.metadata.uid):
            watched = self._watched.setdefault(pod.metadata.uid, _Watched())
            folder = pod_folder(self.run.folder, pod)
            if pod.metadata.deletion_timestamp is not None:
                self._end(pod, folder, watched)
            elif pod.status.phase not in ("Succeeded", "Failed"):
                if was_launched(folder):
                    self._report(pod, folder, watched)
                    continue
                until = until or time.monotonic() + STARTING_SECONDS
                if time.monotonic() < until and (one := self._begin(pod, folder, watched)):
                    begun.append(one)
                    if len(begun) == STARTS_AT_ONCE:
                        self._finish(begun.pop(0))
        for one in begun:
            self._finish(one)

    def _begin(self, pod: Pod, folder: Path, watched: _Watched) -> _Begun | None:
        """Starts a pod's supervisor, if the pod can start now."""
        now = datetime.now(UTC)
        if now.timestamp() < watched.next_try:
            return None
        watched.next_try = now.timestamp() + self.durations.start_retry.total_seconds()
        if self._shares_gpus():
            available = gpus.found(self.machine.environ)
            pod = gpus.hold(self.store, pod, available, self._is_live)
            if gpus.HELD not in pod.metadata.annotations:
                peers = self.store.children(Pod, self.run.job.metadata.uid)
                self._store_status(pod, gpus.waiting(pod, peers, available), Report())
                return None
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        hosts = self.run.folder / "hosts"
        self.network.write_hosts(hosts)
        try:
            ready = assemble(
                pod, folder, self.machine, self.network.peers(), hosts=hosts, lifeline=self.lifeline, now=now
            )
        except Refusal as refusal:
            self._wait(pod, _reason(refusal), str(refusal))
            return None
        for note in ready.notes:
            self._tell(watched, Event("Note", note))
        try:
            how = self.warm.launch(folder, ready) if self.warm is not None else TURNED_OFF
            if how is None:
                watched.next_try = 0.0
                self._wait(pod, "ForkServerStarting", "TensorFlow is being imported, once for all replicas")
                return None
            pod = self._noted(pod, how)
            if how == WARM:
                watched.next_try = 0.0
                self._report(pod, folder, watched)
                return None
            write_whole(folder / "spec.json", msgspec.json.encode(ready.spec))
            return _Begun(pod, folder, watched, supervisor.begin(folder, msgspec.json.encode(ready.secrets)))
        except OSError as error:
            self._not_started(pod, error)
            return None

    def _finish(self, begun: _Begun) -> None:
        """Waits until a supervisor is in charge, and reports for the first time."""
        try:
            supervisor.await_lock(begun.process, begun.folder)
        except OSError as error:
            self._not_started(begun.pod, error)
            return
        begun.watched.next_try = 0.0
        self._report(begun.pod, begun.folder, begun.watched)

    def _not_started(self, pod: Pod, error: OSError) -> None:
        self._wait(pod, "CreateContainerError", f"the supervisor could not start: {error}")

    def _noted(self, pod: Pod, how: str) -> Pod:
        """The pod with a note of how it was started; a cold start is told, once for all replicas with that reason."""
        if how == pod.metadata.annotations.get(HOW, ""):
            return pod
        pod = replace(pod, metadata=replace(pod.metadata, annotations={**pod.metadata.annotations, HOW: how}))
        self.store.update_child(pod)
        if how.startswith(COLD) and how not in EXPECTED | self._told_cold:
            self._told_cold.add(how)
            message = f"{pod.metadata.name} starts cold, because {how.removeprefix(COLD)}"
            asked = self.warm is not None and self.warm.asked
            self.publish(Event("ColdStart", message, warning=asked))
        return pod

    def _shares_gpus(self) -> bool:
        """Whether GPUs are set apart for the replicas of this run."""
        counted = not self.machine.cpu and not self.machine.config.gpu
        return counted and gpus.asked_by_job(self.run.job) > 0

    def _is_live(self, pod: Pod) -> bool:
        """Whether a pod, of whatever run, has processes or is about to."""
        run = self.store.run(pod.metadata.owner_references[0].uid)
        if run is None or pod.status.phase in ("Succeeded", "Failed"):
            return False
        folder = pod_folder(run.folder, pod)
        return supervisor.alive(folder) if was_launched(folder) else is_driven(run)

    def _report(self, pod: Pod, folder: Path, watched: _Watched) -> None:
        # Asked first: what a dead supervisor wrote is its last word.
        alive = supervisor.alive(folder)
        status_file = folder / "status.json"
        found = file_version(str(status_file))
        if found == watched.seen and alive:
            return
        watched.seen = found
        data = status_file.read_bytes() if found else b"{}"
        report = msgspec.json.decode(data, type=Report)
        if not alive and not report.done:
            sweep(pod)
            self._store_status(pod, unknown_end(pod), report)
            return
        if self.warm is not None and report.fork_failed:
            self.warm.distrust(report.fork_failed)
        for reason in report.cold.values():
            pod = self._noted(pod, f"{COLD}{reason}")
        if found:
            self._store_status(pod, msgspec.json.decode(data, type=PodStatus), report)
        for warning in report.warnings:
            self._tell(watched, Event("Warning", f"{pod.metadata.name}: {warning}", warning=True))

    def _end(self, pod: Pod, folder: Path, watched: _Watched) -> None:
        """Stops a pod that is to go; when its processes are over its row goes too, its logs stay."""
        if was_launched(folder) and supervisor.alive(folder):
            if not watched.stopping or (self.hurry and not watched.hurried):
                supervisor.stop(folder, self._grace(pod))
                watched.stopping, watched.hurried = True, self.hurry
            return
        sweep(pod)
        clean(folder)
        self.store.remove_child(pod.metadata.uid)
        self._watched.pop(pod.metadata.uid, None)

    def _grace(self, pod: Pod) -> float | None:
        """How long a pod may take to stop; None leaves it at what the manifest says."""
        if self.hurry:
            return 0.0
        run = self.store.run(self.run.job.metadata.uid)
        unset = pod.spec.get("terminationGracePeriodSeconds") is None
        # Collectives ignore SIGTERM, and would take all of the default though nothing waits for them.
        return self.durations.end_grace.total_seconds() if unset and run and is_finished(run.job.status) else None

    def _store_status(self, pod: Pod, status: PodStatus, report: Report) -> None:
        status = replace(status, pod_ip=pod.status.pod_ip)
        annotations = dict(pod.metadata.annotations)
        if report.peak_memory:
            annotations[PEAK_MEMORY] = str(max(report.peak_memory.values()))
        changed = replace(pod, status=status, metadata=replace(pod.metadata, annotations=annotations))
        if changed != pod:
            self.store.update_child(changed)

    def _wait(self, pod: Pod, reason: str, message: str) -> None:
        waiting = ContainerState(waiting=ContainerWaiting(reason=reason, message=message))
        containers = [
            ContainerStatus(name=container["name"], state=waiting) for container in pod.spec.get("containers") or []
        ]
        self._store_status(pod, PodStatus(phase="Pending", container_statuses=containers), Report())

    def _tell(self, watched: _Watched, news: Event) -> None:
        if news.message not in watched.told:
            watched.told.add(news.message)
            self.publish(news)


def unknown_end(pod: Pod) -> PodStatus:
    """The status of a pod whose supervisor died without a word, as a kubelet gives it."""
    now = datetime.now(UTC)
    ended = [
        replace(
            status,
            ready=False,
            state=ContainerState(
                terminated=ContainerTerminated(
                    exit_code=137,
                    reason=UNKNOWN,
                    message="its supervisor is gone",
                    started_at=status.state.running.started_at if status.state.running else None,
                    finished_at=now,
                )
            ),
        )
        for status in pod.status.container_statuses
        or [ContainerStatus(name=container["name"]) for container in pod.spec.get("containers") or []]
    ]
    return replace(
        pod.status, phase="Failed", reason=UNKNOWN, message="its supervisor is gone", container_statuses=ended
    )


def _reason(refusal: Refusal) -> str:
    if isinstance(refusal, MissingReference):
        return "CreateContainerConfigError"
    return "FailedMount" if isinstance(refusal, VolumeError) else "CreateContainerError"
