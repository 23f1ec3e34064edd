"""Measure what the tool costs: start, end, idle time and output, as ratios to bare processes in the same run.

    python bench/overhead.py [ROUNDS] [help | idle | output | ps | queue]...

Absolute figures depend on the machine; the ratios of one run are comparable. This is not a test.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

TFJOB = [sys.executable, "-m", "tfjob"]


PYTHON = [sys.executable, "-c", "pass"]
TICKS = os.sysconf("SC_CLK_TCK")


def main(rounds: int, wanted: list[str]) -> None:
    print(f"load average before: {os.getloadavg()[0]:.1f}")
    for name in wanted or PARTS:
        with tempfile.TemporaryDirectory(prefix="tfjob-bench-") as folder:
            os.environ["TFJOB_HOME"] = str(Path(folder, "home"))
            PARTS[name](Path(folder), rounds)


def help_(folder: Path, rounds: int) -> None:
    """Measure the start of the tool, and small jobs."""
    bare = measure(rounds, lambda: subprocess.run(PYTHON, check=True))
    overview = measure(rounds, lambda: subprocess.run([*TFJOB, "--help"], check=True, stdout=subprocess.DEVNULL))
    print(f"{'':34}{'wall':>9}{'CPU':>9}   ratio of CPU to a bare python")
    show("python -c pass", bare, bare)
    show("tfjob --help", overview, bare)
    client = [sys.executable, "-c", "import tfjob; tfjob.Client"]
    show("import tfjob; tfjob.Client", measure(rounds, lambda: subprocess.run(client, check=True)), bare)
    for replicas in (1, 3):
        job = manifest(folder, "empty", PYTHON, replicas)
        show(f"a job of {replicas} x python -c pass", measure(rounds, lambda job=job: run(job)), bare)


def idle(folder: Path, rounds: int, replicas: int = 8, seconds: float = 30.0) -> None:
    """Measure CPU and private memory of the tool and its supervisors while the replicas of a job sleep."""
    job = manifest(folder, "sleeping", ["sleep", "3600"], replicas)
    tool = subprocess.Popen([*TFJOB, "run", str(job)], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while len(own := processes(folder, tool.pid)) < 1 + 2 * replicas and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(3)  # until the work after the start is done
        before = sum(cpu(pid) for pid in own)
        time.sleep(seconds)
        share = (sum(cpu(pid) for pid in own) - before) / seconds
        memory = sum(private_memory(pid) for pid in own) / 2**20
    finally:
        tool.terminate()
        tool.wait()
    print(f"{replicas} replicas that sleep: {len(own)} processes of tfjob take {share:.2%} of a core, {memory:.0f} MiB")


def ps(folder: Path, rounds: int, count: int = 1000) -> None:
    """Measure `tfjob ps` with many finished runs: one real run, and copies of it under other names."""
    run(manifest(folder, "first", ["true"], 1))
    copies(folder / "home", count - 1)
    listing = measure(rounds, lambda: subprocess.run([*TFJOB, "ps"], check=True, stdout=subprocess.DEVNULL))
    bare = measure(rounds, lambda: subprocess.run(PYTHON, check=True))
    print(f"{'':34}{'wall':>9}{'CPU':>9}   ratio of CPU to a bare python")
    show(f"tfjob ps, {count} finished runs", listing, bare)


def queue(folder: Path, rounds: int, count: int = 200) -> None:
    """Measure many jobs of one tiny process in one run, from one manifest."""
    documents = [json.loads(manifest(folder, f"tiny-{number}", ["true"], 1).read_text()) for number in range(count)]
    path = folder / "all.json"
    path.write_text("\n---\n".join(map(json.dumps, documents)))
    bare = measure(1, lambda: [subprocess.run(["true"], check=True) for _ in range(count)])
    found = measure(1, lambda: run(path))
    print(
        f"{count} jobs of one `true` through one run: {found[0]:.1f} s, {found[0] / count * 1000:.0f} ms per job, CPU"
    )
    print(f"{found[1] / count * 1000:.0f} ms per job; bare, one after the other: {bare[0] / count * 1000:.1f} ms each")


def processes(folder: Path, tool: int) -> list[int]:
    """Return the tool, the supervisors of a state folder and the inits of their containers, without the programs."""

    def command_line(pid: int) -> bytes:
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return b""

    found = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())
    own = [pid for pid in found if b"pod_process" in (line := command_line(pid)) and str(folder).encode() in line]
    return [tool, *own]


def cpu(pid: int) -> float:
    """Return the CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def private_memory(pid: int) -> int:
    """Return the bytes of a process that it does not share."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


def copies(home: Path, count: int) -> None:
    """Copy the only run of a state folder under other names."""
    with sqlite3.connect(home / "state.db") as database:
        (data, folder) = database.execute("select data, folder from objects join runs using (uid)").fetchone()
        (pod,) = database.execute("select data from objects where kind = 'Pod'").fetchone()
        for number in range(count):
            uid, name = str(uuid.uuid4()), f"copy-{number}"
            job, child = json.loads(data), json.loads(pod)
            job["metadata"] |= {"uid": uid, "name": name}
            child["metadata"] |= {"uid": str(uuid.uuid4()), "name": f"{name}-worker-0"}
            child["metadata"]["ownerReferences"][0] |= {"uid": uid, "name": name}
            place = Path(folder).with_name(f"{name}.1")
            shutil.copytree(folder, place, ignore=shutil.ignore_patterns("rootfs"))
            database.execute(
                "insert into runs select ?, number, attached, boot, ?, created, ?, settled_until from runs "
                "join objects using (uid) where name = 'first'",
                (uid, str(place), uid),
            )
            for made, kind, first in ((job, "TFJob", "first"), (child, "Pod", "first-worker-0")):
                database.execute(
                    "insert into objects select ?, kind, namespace, ?, ?, 1, version, ? from objects "
                    "where kind = ? and name = ?",
                    (
                        made["metadata"]["uid"],
                        made["metadata"]["name"],
                        uid if kind == "Pod" else "",
                        json.dumps(made).encode(),
                        kind,
                        first,
                    ),
                )


def output(folder: Path, rounds: int, megabytes: int = 30) -> None:
    """Measure the throughput of a replica that only prints, compared with the same program that writes to a file."""
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
    """Return the median wall and CPU seconds, including the CPU of children."""
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


PARTS: dict[str, Callable[[Path, int], None]] = {
    "help": help_,
    "idle": idle,
    "output": output,
    "ps": ps,
    "queue": queue,
}


if __name__ == "__main__":
    words = sys.argv[1:]
    main(int(words.pop(0)) if words and words[0].isdecimal() else 5, words)
