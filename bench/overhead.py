"""What the tool costs beside what it runs: start, end, waiting and output, as ratios to bare processes in the same run.

    python bench/overhead.py [ROUNDS]

The figures of one machine mean little; the ratios of one run mean more. Nothing here is a test.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TFJOB = [sys.executable, "-m", "tfjob"]


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="tfjob-bench-") as name:
        folder = Path(name)
        os.environ["TFJOB_HOME"] = str(folder / "home")
        python = [sys.executable, "-c", "pass"]
        bare = measure(rounds, lambda: subprocess.run(python, check=True))
        help_ = measure(rounds, lambda: subprocess.run([*TFJOB, "--help"], check=True, stdout=subprocess.DEVNULL))
        print(f"{'':34}{'wall':>9}{'CPU':>9}   ratio of CPU to a bare python")
        show("python -c pass", bare, bare)
        show("tfjob --help", help_, bare)
        for replicas in (1, 3):
            job = manifest(folder, "empty", python, replicas)
            show(f"a job of {replicas} x python -c pass", measure(rounds, lambda job=job: run(job)), bare)
        waiting(folder)
        output(folder)


def waiting(folder: Path, seconds: float = 10.0) -> None:
    """CPU that a job of three sleeping replicas takes, as a share of one core."""
    job = manifest(folder, "sleeping", ["sleep", str(seconds)], 3)
    empty = measure(1, lambda: run(manifest(folder, "shorter", ["sleep", "0"], 3)))
    full = measure(1, lambda: run(job))
    share = (full[1] - empty[1]) / seconds
    print(f"\nthree replicas that sleep: the driver and three supervisors take {share:.1%} of a core")


def output(folder: Path, megabytes: int = 30) -> None:
    """Throughput of a replica that only prints, beside the same program into a file."""
    block = "(('x' * 99 + chr(10)) * 1048)"
    program = f"import sys\nfor _ in range({megabytes * 10}): sys.stdout.write({block})"
    command = [sys.executable, "-c", program]
    with (folder / "plain").open("w") as file:
        plain = measure(1, lambda: subprocess.run(command, check=True, stdout=file))
    detached = manifest(folder, "printing", command, 1)
    logged = measure(1, lambda: run(detached, "-o", "json"))
    size = (folder / "plain").stat().st_size / 2**20
    print(f"a replica that prints {size:.0f} MiB: {logged[0]:.2f} s in a job, {plain[0]:.2f} s into a file")


def manifest(folder: Path, name: str, command: list[str], replicas: int) -> Path:
    container = {"name": "tensorflow", "image": "bench:1", "command": command}
    worker = {"replicas": replicas, "template": {"spec": {"containers": [container]}}}
    spec = {"tfReplicaSpecs": {"Worker": worker}, "successPolicy": "AllWorkers"}
    job: dict[str, Any] = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": name}, "spec": spec}
    path = folder / f"{name}.json"
    path.write_text(json.dumps(job))
    return path


def run(job: Path, *words: str) -> None:
    subprocess.run([*TFJOB, "run", str(job), *words], check=True, stdout=subprocess.DEVNULL)


def measure(rounds: int, action: Callable[[], object]) -> tuple[float, float]:
    """Median wall and CPU seconds, the CPU of waited-for children included."""
    walls, cpus = [], []
    for _ in range(rounds):
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        action()
        walls.append(time.perf_counter() - begun)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(walls), statistics.median(cpus)


def show(name: str, found: tuple[float, float], base: tuple[float, float]) -> None:
    print(f"{name:34}{found[0] * 1000:7.0f} ms{found[1] * 1000:7.0f} ms   {found[1] / base[1]:.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
