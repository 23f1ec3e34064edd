"""Real TensorFlow under faults: peers that die of a peer's death, servers that hold state, handlers that swallow."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from installed import Installed
from running import Running, status, workload_pid
from training.examples import EXAMPLES, pods_of, shortened

pytestmark = [pytest.mark.faults, pytest.mark.tensorflow, pytest.mark.timeout(600)]

PATIENCE = 240.0
"""Seconds that three TensorFlows may take to start, or to come to the next step, on a machine that does much else."""

COLLECTIVE = """
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
print('trains', flush=True)
with strategy.scope():
    total = tf.Variable(0.0)
@tf.function
def step():
    return strategy.reduce('SUM', strategy.run(lambda: tf.constant(1.0)), axis=None)
while True:
    step()
"""


def briefly(name: str, steps: int, folder: Path) -> str:
    """A copy of an example's manifest with fewer steps and more checkpoints, run in the example's own folder."""
    documents = shortened(name, steps)
    for pod in pods_of(documents[0]):
        pod["containers"][0]["workingDir"] = str(EXAMPLES / name)
    folder.mkdir(exist_ok=True)
    (folder / "job.yaml").write_text(yaml.safe_dump_all(documents))
    return str(folder / "job.yaml")


def test_a_killed_worker_and_a_killed_chief_restart_the_whole_gang(tool: Installed, tmp_path: Path) -> None:
    """The survivor's own exit 1 is a consequence: both times everybody resumes from the checkpoint and the job ends
    well, the evaluator undisturbed."""
    home = tmp_path / "home"
    run = Running(tool, home, briefly("mnist", 100, tmp_path / "job"))
    run.wait_for("chief-0     | step 20/", timeout=PATIENCE)  # only the chief's checkpoint counts
    evaluator = workload_pid(home, "mnist-evaluator-0")
    os.kill(workload_pid(home, "mnist-worker-0"), signal.SIGKILL)
    run.wait_for("chief-0     | resumed from step", timeout=PATIENCE)
    run.wait_for("chief-0     | step 60/", timeout=PATIENCE)
    os.kill(workload_pid(home, "mnist-chief-0"), signal.SIGKILL)
    run.wait_for("chief-0     | resumed from step", timeout=PATIENCE, count=2)
    assert workload_pid(home, "mnist-evaluator-0") == evaluator
    assert run.finish(PATIENCE) == 0
    shown = status(tool, home, "mnist")
    assert shown["restarts"] == 2
    assert shown["attempt"] == 3


def test_with_a_parameter_server_only_what_was_lost_restarts(tool: Installed, tmp_path: Path) -> None:
    """An evaluator, a worker, then the server are killed: each restarts alone; of the server's loss the chief dies
    too and resumes. The evaluator is not in the chief's cluster, so nothing hangs. All of them were forked: what
    the strategy sets in the environment is no reason to start the chief over."""
    home = tmp_path / "home"
    run = Running(tool, home, briefly("mnist-ps", 400, tmp_path / "job"))
    run.wait_for("step 20/", timeout=PATIENCE)
    replicas: list[dict[str, Any]] = status(tool, home, "mnist-ps")["replicas"]  # type: ignore[assignment]
    assert {replica["start"] for replica in replicas} == {"warm"}, replicas
    chief, first_worker = workload_pid(home, "mnist-ps-chief-0"), workload_pid(home, "mnist-ps-worker-0")
    os.kill(workload_pid(home, "mnist-ps-evaluator-0"), signal.SIGKILL)
    os.kill(workload_pid(home, "mnist-ps-worker-1"), signal.SIGKILL)
    run.wait_for("step 60/", timeout=PATIENCE)
    assert workload_pid(home, "mnist-ps-chief-0") == chief
    os.kill(workload_pid(home, "mnist-ps-ps-0"), signal.SIGKILL)
    run.wait_for("resumed from step", timeout=PATIENCE)
    assert workload_pid(home, "mnist-ps-worker-0") == first_worker
    assert run.finish(PATIENCE) == 0
    restarted = status(tool, home, "mnist-ps")["status"]["taskRestarts"]  # type: ignore[index]
    assert {"evaluator-0", "ps-0", "worker-1"} <= restarted.keys()
    assert "worker-0" not in restarted


def test_a_collective_that_swallows_sigterm_ends_after_its_grace(tool: Installed, tmp_path: Path) -> None:
    """TensorFlow's own handler only takes a note of SIGTERM: `stop` ends the replicas by SIGKILL and in time."""
    home, folder = tmp_path / "home", tmp_path / "job"
    container = {"name": "tensorflow", "image": "x:1", "command": ["python", "-c", COLLECTIVE]}
    template = {"spec": {"terminationGracePeriodSeconds": 2, "containers": [container]}}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "swallow"},
        "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2, "template": template}}},
    }
    folder.mkdir()
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    run = Running(tool, home, str(folder / "job.yaml"))
    run.wait_for("trains", timeout=PATIENCE, count=2)
    assert tool.tfjob(home, "stop", "swallow").returncode == 0
    run.finish(PATIENCE)
    assert [one["exitCode"] for one in status(tool, home, "swallow")["replicas"]] == [137, 137]  # type: ignore[attr-defined]
