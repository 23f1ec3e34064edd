"""What pods use, measured at real processes."""

from __future__ import annotations

import time

from support.local.pod_harness import Place, Pods, at
from tfjob.jobs.backend import Usage
from tfjob.local.jobs.meter import CPU_SECONDS, TREE_SECONDS, Meter

BUSY = "import subprocess, sys; x = bytearray(80 << 20); subprocess.run([sys.executable, '-c', 'while True: pass'])"


class Clock:
    """A clock that a test sets ahead."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


@at([Place("full", "root"), Place("ports", "user")])
def test_the_time_of_children_and_the_memory_of_all_processes_are_the_pods(pods: Pods) -> None:
    pod = pods.launch(pods.container("python3", "-c", BUSY))
    meter = Meter()
    seen: list[Usage] = []

    def is_busy() -> bool:
        seen[:] = meter.measure({"worker-0": pod.folder}).values()
        return any((used.memory or 0) > 80 << 20 and (used.cpu or 0) > 0 for used in seen)

    pod.until(is_busy)
    (used,) = seen
    assert used.cpu is not None
    assert used.cpu < 1.5, "a loop takes one core, or what others leave it of one"
    pod.kill()


@at([Place("full", "root"), Place("ports", "user")])
def test_between_two_measurements_the_last_one_is_repeated(pods: Pods) -> None:
    pod = pods.launch(pods.container("sleep", "600"))
    pod.until_running()
    clock = Clock()
    meter = Meter(clock)
    pod.until(lambda: meter.measure({"worker-0": pod.folder}) or not _advance(clock))
    (before,) = meter.measure({"worker-0": pod.folder}).values()
    pod.kill()
    assert meter.measure({"worker-0": pod.folder}) == {"worker-0": before}
    clock.ahead += 2 * TREE_SECONDS
    assert meter.measure({"worker-0": pod.folder}) == {}


def _advance(clock: Clock) -> bool:
    clock.ahead += CPU_SECONDS
    return True
