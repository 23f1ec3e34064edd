"""The CPU and memory that the replicas of a run use: all processes below their supervisors."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tfjob.jobs.backend import Usage
from tfjob.local.sandbox import pod_files, processes

CPU_SECONDS, TREE_SECONDS = 1.0, 5.0
"""The shortest intervals between readings of CPU time, and of the processes and their memory, which cost much more.

While the processes of a pod are not known, they are looked for as often as CPU time is read.
"""
SHARE = 0.005
"""The largest share of a core for each reading: many or large processes are measured less often."""


@dataclass
class _Measured:
    """The processes of a pod and their last reading."""

    supervisor: int
    pids: list[int] = field(default_factory=list)
    memory: int = 0
    used: float | None = None
    cpu: float | None = None


class Meter:
    """Measures pods, by their folders, at intervals; in between it returns the last values."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pods: dict[Path, _Measured] = {}
        self._read_at = float("-inf")
        self._next_reading = self._found_at = float("-inf")
        self._cost = 0.0

    def measure(self, pods: Mapping[str, Path]) -> dict[str, Usage]:
        """Return usage by the keys of `pods`, without pods whose processes cannot be seen."""
        now = self._clock()
        known = [self._pods.get(folder) for folder in pods.values()]
        patience = TREE_SECONDS if all(one and one.pids for one in known) else CPU_SECONDS
        if now >= self._found_at + max(patience, self._cost / SHARE):
            self._found_at, self._cost = now, _cost(lambda: self._find(pods))
        if now >= self._next_reading:
            self._next_reading = now + max(CPU_SECONDS, _cost(lambda: self._read(now)) / SHARE)
        found = {name: self._pods[folder] for name, folder in pods.items() if folder in self._pods}
        return {name: Usage(one.cpu, one.memory) for name, one in found.items() if one.pids}

    def _find(self, pods: Mapping[str, Path]) -> None:
        """Find the processes of each pod and their memory; shared pages are divided among forked replicas."""
        known, self._pods = self._pods, {}
        for folder in pods.values():
            before = known.get(folder)
            self._pods[folder] = before if before and before.supervisor else _Measured(_supervisor(folder))
        below = processes.descendants_of([one.supervisor for one in self._pods.values() if one.supervisor])
        for one in self._pods.values():
            resident = below.get(one.supervisor, {})
            shares = {pid: processes.proportional_memory(pid) for pid in resident}
            one.memory = sum(resident[pid] if share is None else share for pid, share in shares.items())
            if not set(one.pids).issuperset(resident):
                one.used = None  # the earlier CPU time of a new process does not belong to this interval
            one.pids = list(resident)

    def _read(self, now: float) -> None:
        for one in self._pods.values():
            times = [spent for pid in one.pids if (spent := processes.cpu_seconds(pid)) is not None]
            used = sum(times) if times else None
            if used is not None and one.used is not None and now > self._read_at:
                one.cpu = max(0.0, used - one.used) / (now - self._read_at)
            one.used = used
        self._read_at = now


def _cost(work: Callable[[], None]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _supervisor(folder: Path) -> int:
    """Return the process id of a pod's supervisor; 0 if it has ended, even if the id is in use again."""
    identity = pod_files.read_json(f"{folder}/supervisor.json")
    if not identity or processes.start_time(identity["pid"]) != identity["startTime"]:
        return 0
    return int(identity["pid"])
