"""The local kubelet: starts a supervisor for each pod of a run and of what it owns, and reports the pods' state.

It keeps nothing important in memory: after a crash, the next kubelet finds every pod by its folder.
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
    PEAK_MEMORY,
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    ContainerWaiting,
    Pod,
    PodCondition,
    PodStatus,
)
from tfjob.controller.actions import LOG_LOST, Event
from tfjob.controller.kind import STOPPED, SUSPEND_REASON
from tfjob.durations import USUAL, Durations
from tfjob.local.inputs import gpus, keras_layer
from tfjob.local.inputs.images import ImageError
from tfjob.local.inputs.references import MissingReference
from tfjob.local.pod.assembly import Machine, assemble
from tfjob.local.pod.network import Network
from tfjob.local.run.deployments import TEMPLATE_HASH
from tfjob.local.run.driver_lock import is_driven
from tfjob.local.run.pod_folder import clean, pod_folder, sweep, was_launched
from tfjob.local.sandbox import supervisor
from tfjob.local.sandbox.pod_files import file_version
from tfjob.local.state.errors import Refusal
from tfjob.local.state.home import write_whole
from tfjob.local.state.store import Run, Store
from tfjob.local.volumes.volumes import VolumeError
from tfjob.local.warm.start import COLD, EXPECTED, HOW, TURNED_OFF, WARM, WarmStart
from tfjob.records.pods import lost_output

STARTS_AT_ONCE = 8
"""Supervisors that start at the same time: each is an interpreter, and more would only compete for cores."""
STARTING_SECONDS = 0.5
"""How long one round may start pods: Ctrl-C and the reports of other pods wait meanwhile."""
LOST_FACTOR = 10
"""Lost output is reported again when it has grown by this factor: a full disk must not also fill the events."""
UNKNOWN = "ContainerStatusUnknown"
READINESS = ("ContainersReady", "Ready")


class Report(msgspec.Struct, rename="camel"):
    """The fields of a supervisor's status file that are not part of the pod status."""

    done: bool = False
    peak_memory: dict[str, int] = {}
    warnings: list[str] = []
    cold: dict[str, str] = {}
    log_lost: int = 0
    fork_failed: str = ""


@dataclass
class _Watched:
    """What this process remembers about a pod, with its folder and the run that owns it."""

    run: Run
    folder: Path
    seen: tuple[int, ...] | None = None
    next_try: float = 0.0
    stopping: bool = False
    hurried: bool = False
    told: set[str] = field(default_factory=set)
    lost: int = 0
    """The last reported number of bytes of its output that could not be written."""


@dataclass(frozen=True)
class _Begun:
    """A pod whose supervisor is starting."""

    pod: Pod
    watched: _Watched
    process: subprocess.Popen[bytes]


@dataclass(kw_only=True)
class Kubelet:
    """The pods of a root run and of everything that it owns."""

    store: Store
    root: str
    machine_of: Callable[[Run], Machine]
    network: Network
    lifeline: Path | None
    publish: Callable[[Run, Event], None]
    is_finished: Callable[[Run], bool]
    has_read: Callable[[Pod], bool] = lambda pod: True
    warm: WarmStart | None = None
    durations: Durations = USUAL
    hurry: bool = False
    """Set to end stopping pods at once."""
    _told_cold: set[str] = field(default_factory=set)
    _told_layer: set[str] = field(default_factory=set)
    _watched: dict[str, _Watched] = field(default_factory=dict)
    _network_version: int = -1

    def sync(self) -> None:
        """Start, report, stop or remove every pod once; if many have to start, some wait for the next call."""
        until = 0.0
        begun: list[_Begun] = []
        tree = self.store.tree(self.root)
        self._write_hosts(tree)
        pods = [(pod, owner) for owner in tree for pod in self.store.children(Pod, owner.uid)]
        for pod, run in pods:
            watched = self._watched.setdefault(pod.metadata.uid, _Watched(run, pod_folder(run.folder, pod)))
            watched.run = run
            if pod.metadata.deletion_timestamp is not None:
                self._end(pod, watched)
            elif not _has_ended(pod):
                if was_launched(watched.folder):
                    self._report(pod, watched)
                    continue
                until = until or time.monotonic() + STARTING_SECONDS
                if time.monotonic() < until and (one := self._begin(pod, watched)):
                    begun.append(one)
                    if len(begun) == STARTS_AT_ONCE:
                        self._finish(begun.pop(0))
        for one in begun:
            self._finish(one)

    def _write_hosts(self, tree: list[Run]) -> None:
        if self.network.version == self._network_version:
            return
        self._network_version = self.network.version
        for run in tree:
            hosts = run.folder / "hosts"
            if hosts.exists():
                self.network.write_hosts(hosts)

    def _begin(self, pod: Pod, watched: _Watched) -> _Begun | None:
        run, folder, machine = watched.run, watched.folder, self.machine_of(watched.run)
        now = datetime.now(UTC)
        if now.timestamp() < watched.next_try:
            return None
        watched.next_try = now.timestamp() + self.durations.start_retry.total_seconds()
        peers = self.store.children(Pod, run.uid)
        # If any pod of a run requests GPUs, the others see none.
        if not machine.cpu and not machine.config.gpu and any(gpus.asked_by_pod(peer.spec) for peer in peers):
            available = gpus.found(machine.environ)
            pod = gpus.hold(self.store, pod, available, self._is_live)
            if gpus.HELD not in pod.metadata.annotations:
                self._store_status(pod, gpus.waiting(pod, peers, available), Report())
                return None
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        hosts = run.folder / "hosts"
        self.network.write_hosts(hosts)
        try:
            ready = assemble(pod, folder, machine, self.network.peers(), hosts=hosts, lifeline=self.lifeline, now=now)
        except Refusal as refusal:
            self._wait(pod, _reason(refusal), str(refusal))
            self._tell_refusal(pod, watched, refusal)
            return None
        for note in ready.notes:
            self._tell(watched, Event("Note", note))
        try:
            how = self.warm.launch(folder, ready) if self.warm is not None else TURNED_OFF
            if how is None:
                watched.next_try = 0.0
                self._wait(pod, "ForkServerStarting", "TensorFlow is being imported, once for all replicas")
                return None
            pod = self._noted(pod, how, run)
            if how == WARM:
                watched.next_try = 0.0
                self._report(pod, watched)
                return None
            write_whole(folder / "spec.json", msgspec.json.encode(ready.spec))
            return _Begun(pod, watched, supervisor.begin(folder, msgspec.json.encode(ready.secrets)))
        except OSError as error:
            self._not_started(pod, error)
            return None

    def _finish(self, begun: _Begun) -> None:
        """Wait until a supervisor holds its lock, and report for the first time."""
        try:
            supervisor.await_lock(begun.process, begun.watched.folder)
        except OSError as error:
            self._not_started(begun.pod, error)
            return
        begun.watched.next_try = 0.0
        self._report(begun.pod, begun.watched)

    def _not_started(self, pod: Pod, error: OSError) -> None:
        self._wait(pod, "CreateContainerError", f"the supervisor could not start: {error}")

    def _noted(self, pod: Pod, how: str, run: Run) -> Pod:
        """Return the pod annotated with how it started; report a cold start once per reason."""
        if how == pod.metadata.annotations.get(HOW, ""):
            return pod
        pod = replace(pod, metadata=replace(pod.metadata, annotations={**pod.metadata.annotations, HOW: how}))
        self.store.update_child(pod)
        if how.startswith(COLD) and how not in EXPECTED | self._told_cold:
            self._told_cold.add(how)
            message = f"{pod.metadata.name} starts cold, because {how.removeprefix(COLD)}"
            asked = self.warm is not None and self.warm.asked
            self.publish(run, Event("ColdStart", message, warning=asked))
        return pod

    def _is_live(self, pod: Pod) -> bool:
        """Return whether a pod, of any run, has processes or is about to start them."""
        run = self.store.run(pod.metadata.owner_references[0].uid)
        if run is None or _has_ended(pod):
            return False
        folder = pod_folder(run.folder, pod)
        return supervisor.alive(folder) if was_launched(folder) else is_driven(run)

    def _report(self, pod: Pod, watched: _Watched) -> None:
        # Checked before reading: a dead supervisor writes nothing more.
        alive = supervisor.alive(watched.folder)
        self._tell_keras_layer(watched)
        # Before anything is stored, which fails too if the disk is full.
        self._tell_lost(pod, watched, lost_output(watched.folder))
        status_file = watched.folder / "status.json"
        found = file_version(str(status_file))
        if found == watched.seen and alive:
            return
        data = status_file.read_bytes() if found else b"{}"
        report = msgspec.json.decode(data, type=Report)
        if report.done:
            self._tell_lost(pod, watched, report.log_lost, is_total=True)
        if not alive and not report.done:
            sweep(pod)
            self._store_status(pod, unknown_end(pod), report)
            return
        if self.warm is not None and report.fork_failed:
            self.warm.distrust(report.fork_failed)
        for reason in report.cold.values():
            pod = self._noted(pod, f"{COLD}{reason}", watched.run)
        if found:
            self._store_status(pod, msgspec.json.decode(data, type=PodStatus), report)
        for warning in report.warnings:
            self._tell(watched, Event("Warning", f"{pod.metadata.name}: {warning}", warning=True))
        watched.seen = found  # now, because storing the status may have failed

    def _tell_lost(self, pod: Pod, watched: _Watched, lost: int, *, is_total: bool = False) -> None:
        """Report lost output at once, again when it has grown by LOST_FACTOR, and in total."""
        if lost <= watched.lost or not (is_total or lost >= LOST_FACTOR * watched.lost):
            return
        watched.lost = lost
        text = f"{lost:,} bytes of its log {'were' if is_total else 'are'} lost{'' if is_total else ' so far'}"
        text = f"{pod.metadata.name}: {text}, because writing to {watched.folder} failed; is the disk full?"
        self._tell(watched, Event(LOG_LOST, text, warning=True))

    def _tell_keras_layer(self, watched: _Watched) -> None:
        """Report once per run that its replicas use the Keras layer, which then writes a file."""
        run = watched.run
        if run.uid in self._told_layer:
            return
        if version := keras_layer.reported_version(watched.folder):
            self._told_layer.add(run.uid)
            message = f"Keras {version} trains on several workers with the compatibility layer of tfjob"
            self.publish(run, Event("KerasLayer", f"{message} ({keras_layer.SWITCH}=0 turns it off)"))

    def _end(self, pod: Pod, watched: _Watched) -> None:
        """Stop a deleted pod; once its processes have ended, remove its row. Its logs stay."""
        folder = watched.folder
        if was_launched(folder) and supervisor.alive(folder):
            if not watched.stopping or (self.hurry and not watched.hurried):
                supervisor.stop(folder, self._grace(pod, watched.run))
                watched.stopping, watched.hurried = True, self.hurry
            return
        if was_launched(folder) and self._needs_end(pod, watched.run):
            if not _has_ended(pod):
                self._report(pod, watched)
            return
        sweep(pod)
        clean(folder)
        self.store.remove_child(pod.metadata.uid)
        if TEMPLATE_HASH in pod.metadata.labels:
            self.network.release(pod)
        self._watched.pop(pod.metadata.uid, None)

    def _needs_end(self, pod: Pod, run: Run) -> bool:
        """Return whether a pass must still see how a pod has ended: a stopped run succeeds if all of its pods did."""
        owner = run.stored.metadata
        if owner.annotations.get(SUSPEND_REASON) != STOPPED or owner.deletion_timestamp is not None:
            return False
        return not (_has_ended(pod) and self.has_read(pod))

    def _grace(self, pod: Pod, run: Run) -> float | None:
        """Return how long a pod may take to stop; None for the period of the manifest."""
        if self.hurry:
            return 0.0
        unset = pod.spec.get("terminationGracePeriodSeconds") is None
        # Collectives ignore SIGTERM and would use the whole default period, although the job has finished.
        return self.durations.end_grace.total_seconds() if unset and self.is_finished(run) else None

    def _store_status(self, pod: Pod, status: PodStatus, report: Report) -> None:
        status = replace(status, pod_ip=pod.status.pod_ip, conditions=conditions(pod, status, datetime.now(UTC)))
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

    def _tell_refusal(self, pod: Pod, watched: _Watched, refusal: Refusal) -> None:
        """Report a pod of a Deployment that cannot start, to the job that owns the Deployment if there is one."""
        # The status of a job reports this for replicas. Missing packages are reported when the job is submitted.
        if TEMPLATE_HASH in pod.metadata.labels and not isinstance(refusal, ImageError):
            why = ". ".join(filter(None, (refusal.message, refusal.hint)))
            event = Event(_reason(refusal), f"{pod.metadata.name} cannot start: {why}", warning=True)
            self._tell(watched, event, self.store.run(watched.run.owner))

    def _tell(self, watched: _Watched, news: Event, owner: Run | None = None) -> None:
        if news.message not in watched.told:
            watched.told.add(news.message)
            self.publish(owner or watched.run, news)


def _has_ended(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def conditions(pod: Pod, status: PodStatus, now: datetime) -> list[PodCondition]:
    """Return the conditions of a status with those of readiness, as a kubelet sets them; sidecars count too."""
    sidecars = {one["name"] for one in pod.spec.get("initContainers") or () if one.get("restartPolicy") == "Always"}
    needed = [one for one in status.init_container_statuses if one.name in sidecars] + status.container_statuses
    unready = [one.name for one in needed if not one.ready]
    reason = message = ""
    if status.phase in ("Succeeded", "Failed"):
        reason = "PodCompleted" if status.phase == "Succeeded" else "PodFailed"
    elif unready or not needed:
        reason, message = "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
    found = [one for one in status.conditions if one.type not in READINESS]
    for kind in READINESS:
        condition = PodCondition(type=kind, status="False" if reason else "True", reason=reason, message=message)
        before = next((one for one in pod.status.conditions if one.type == kind), condition)
        since = before.last_transition_time if before.status == condition.status else None
        found.append(replace(condition, last_transition_time=since or now))
    return found


def unknown_end(pod: Pod) -> PodStatus:
    """Return the status of a pod whose supervisor died without a report, as a kubelet writes it."""
    now, message = datetime.now(UTC), "its supervisor ended unexpectedly"
    unstarted = [ContainerStatus(name=container["name"]) for container in pod.spec.get("containers") or ()]
    ended = []
    for status in pod.status.container_statuses or unstarted:
        began = status.state.running.started_at if status.state.running else None
        end = ContainerTerminated(exit_code=137, reason=UNKNOWN, message=message, started_at=began, finished_at=now)
        ended.append(replace(status, ready=False, state=ContainerState(terminated=end)))
    return replace(pod.status, phase="Failed", reason=UNKNOWN, message=message, container_statuses=ended)


def _reason(refusal: Refusal) -> str:
    if isinstance(refusal, MissingReference):
        return "CreateContainerConfigError"
    return "FailedMount" if isinstance(refusal, VolumeError) else "CreateContainerError"
