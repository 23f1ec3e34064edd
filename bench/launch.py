"""Measure how much later a training starts with tfjob than with a bare shell loop that starts the same processes.

    python bench/launch.py [--pairs 9] [--cold] [--without-tensorflow]

The job has a chief and two workers of a MultiWorkerMirroredStrategy. The time is from the launch until all of them have
done their first step. The loop passes each process a TF_CONFIG with free ports. Tool and loop take turns, so that other
load on the machine affects both, and the result is the median of the differences. No fork server is running: the tool
starts one each time, which imports TensorFlow once for all three. With --cold it starts none. Without TensorFlow, the
processes only report that they have started, which shows the tool's own time with less noise. This is not a test.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

TFJOB = [sys.executable, "-m", "tfjob"]
TASKS = (("chief", 0), ("worker", 0), ("worker", 1))
BOUND_SECONDS = 0.15

TRAINING = """
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    weights = tf.Variable(tf.ones((100, 10)))
@tf.function
def step():
    def on_replica():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.ones((32, 100)) @ weights)
        gradient = tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, weights))
        weights.assign_sub(0.001 * gradient)
        return loss
    return strategy.reduce("SUM", strategy.run(on_replica), axis=None)
float(step())
"""
STAMP = """
import json, os, pathlib, sys, time
task = json.loads(os.environ["TF_CONFIG"])["task"]
now = repr(time.time())
folder = pathlib.Path(sys.argv[1])
(folder / f"{task['type']}-{task['index']}").write_text(now)
while len(os.listdir(folder)) < 3:  # a job ends with its chief
    time.sleep(0.01)
os._exit(0)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--without-tensorflow", action="store_true")
    options = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    with tempfile.TemporaryDirectory(prefix="tfjob-bench-") as name:
        folder = Path(name)
        os.environ["TFJOB_HOME"] = str(folder / "home")
        (folder / "tfjob.toml").write_text(f"[local]\n{'warm = false' if options.cold else 'warm_idle = 0'}\n")
        program = folder / "train.py"
        program.write_text(STAMP if options.without_tensorflow else TRAINING + STAMP)
        tool(folder, program)  # run both once to fill the byte code and file caches
        loop(folder, program)
        pairs = []
        for number in range(options.pairs):
            ways = (tool, loop) if number % 2 else (loop, tool)
            taken = {way: way(folder, program) for way in ways}
            pairs.append((taken[tool], taken[loop]))
            print(f"  tool {taken[tool]:6.3f} s   loop {taken[loop]:6.3f} s   added {taken[tool] - taken[loop]:+.3f} s")
    under_tool, bare = (statistics.median(side) for side in zip(*pairs, strict=True))
    added = statistics.median(one - other for one, other in pairs)
    print(f"medians of {len(pairs)} pairs: tool {under_tool:.3f} s, loop {bare:.3f} s, ratio {under_tool / bare:.2f}")
    print(f"added {added * 1000:.0f} ms (at most {BOUND_SECONDS * 1000:.0f}); load average {os.getloadavg()[0]:.1f}")


def tool(folder: Path, program: Path) -> float:
    """Return the seconds until the last replica has done its first step, as a job."""
    with tempfile.TemporaryDirectory(dir=folder) as stamps:
        container = {"name": "tensorflow", "image": "bench:1", "command": [sys.executable, str(program), stamps]}
        template = {"spec": {"containers": [container]}}
        replicas = {"Chief": {"replicas": 1, "template": template}, "Worker": {"replicas": 2, "template": template}}
        job: dict[str, Any] = {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "metadata": {"name": "launch"},
            "spec": {"tfReplicaSpecs": replicas, "successPolicy": "AllWorkers"},
        }
        manifest = folder / "launch.json"
        manifest.write_text(json.dumps(job))
        return until_stamped([*TFJOB, "run", str(manifest)], Path(stamps))


def loop(folder: Path, program: Path) -> float:
    """Return the seconds until the last process has done its first step, started by a shell."""
    ports = free_ports(len(TASKS))
    addresses = [f"127.0.0.1:{port}" for port in ports]
    cluster = {"chief": addresses[:1], "worker": addresses[1:]}
    with tempfile.TemporaryDirectory(dir=folder) as stamps:
        words = shlex.join([sys.executable, str(program), stamps])
        configs = (json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}) for kind, index in TASKS)
        lines = [f"TF_CONFIG={shlex.quote(config)} {words} &" for config in configs]
        return until_stamped(["sh", "-c", "\n".join([*lines, "wait"])], Path(stamps))


def until_stamped(command: list[str], stamps: Path) -> float:
    """Run a command to its end; return the seconds from its start to the last stamp."""
    begun = time.time()
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    found = [float(path.read_text()) for path in stamps.iterdir()]
    if len(found) != len(TASKS):
        sys.exit(f"only {len(found)} of {len(TASKS)} processes reached their first step:\n{done.stdout}{done.stderr}")
    return max(found) - begun


def free_ports(count: int) -> list[int]:
    """Return ports that no program listens on now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


if __name__ == "__main__":
    main()
