"""Real TensorFlow under faults: peers that die of a peer's death, servers that hold state, handlers that swallow."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.installed import Installed
from support.running import Running, status, wait_until, workload_pid
from support.training.gated import gated_example

pytestmark = [pytest.mark.faults, pytest.mark.tensorflow, pytest.mark.timeout(600)]

PATIENCE = 240.0
"""Seconds that three TensorFlows may take to start, or to reach the next step, on a busy machine."""

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


def test_a_killed_worker_and_a_killed_chief_restart_the_whole_gang(tool: Installed, home: Path, tmp_path: Path) -> None:
    """The survivor's own exit 1 is a consequence: both times chief and worker resume from the checkpoint and the job
    succeeds; the evaluator keeps running."""
    manifest, gate = gated_example("mnist", tmp_path / "job", steps=100, first=40)
    with Running(tool, home, manifest) as run:
        run.wait_for_step(40, "chief-0", timeout=PATIENCE)  # only the chief's checkpoint counts
        evaluator = workload_pid(home, "mnist-evaluator-0")
        os.kill(workload_pid(home, "mnist-worker-0"), signal.SIGKILL)
        run.wait_for("chief-0     | resumed from step 40", timeout=PATIENCE)
        gate.let_train_to(80)
        run.wait_for_step(80, "chief-0", timeout=PATIENCE)
        os.kill(workload_pid(home, "mnist-chief-0"), signal.SIGKILL)
        run.wait_for("chief-0     | resumed from step 80", timeout=PATIENCE)
        assert workload_pid(home, "mnist-evaluator-0") == evaluator
        gate.let_train_to(100)
        assert run.finish(PATIENCE) == 0
    shown = status(tool, home, "mnist")
    assert shown["restarts"] == 2
    assert shown["attempt"] == 3


def test_with_a_parameter_server_only_what_was_lost_restarts(tool: Installed, home: Path, tmp_path: Path) -> None:
    """An evaluator, a worker, then the server are killed, and each restarts alone. The chief dies of the server's loss
    too and resumes. The evaluator is not in the chief's cluster, so nothing hangs. All replicas start warm: what the
    strategy sets in the environment does not make the chief start cold."""
    manifest, gate = gated_example("mnist-ps", tmp_path / "job", steps=400, first=40)
    with Running(tool, home, manifest) as run:
        run.wait_for_step(40, timeout=PATIENCE)
        replicas: list[dict[str, Any]] = status(tool, home, "mnist-ps")["replicas"]  # type: ignore[assignment]
        assert {replica["start"] for replica in replicas} == {"warm"}, replicas
        chief, first_worker = workload_pid(home, "mnist-ps-chief-0"), workload_pid(home, "mnist-ps-worker-0")
        os.kill(workload_pid(home, "mnist-ps-evaluator-0"), signal.SIGKILL)
        os.kill(workload_pid(home, "mnist-ps-worker-1"), signal.SIGKILL)
        gate.let_train_to(80)  # the coordinator finds out that a worker is gone
        run.wait_for_step(80, "chief-0", timeout=PATIENCE)
        wait_until(lambda: restarted(tool, home) == {"evaluator-0", "worker-1"}, PATIENCE)
        assert workload_pid(home, "mnist-ps-chief-0") == chief
        os.kill(workload_pid(home, "mnist-ps-ps-0"), signal.SIGKILL)
        run.wait_for("resumed from step", timeout=PATIENCE)
        assert workload_pid(home, "mnist-ps-worker-0") == first_worker
        gate.let_train_to(400)
        assert run.finish(PATIENCE) == 0
    assert {"evaluator-0", "ps-0", "worker-1"} <= restarted(tool, home)
    assert "worker-0" not in restarted(tool, home)


def restarted(tool: Installed, home: Path) -> set[str]:
    """The replicas of the job mnist-ps that have restarted."""
    return set(status(tool, home, "mnist-ps")["status"].get("taskRestarts", {}))  # type: ignore[attr-defined]


def test_a_collective_that_swallows_sigterm_ends_after_its_grace(tool: Installed, home: Path, tmp_path: Path) -> None:
    """TensorFlow's own handler ignores SIGTERM: `stop` ends the replicas with SIGKILL after their grace."""
    folder = tmp_path / "job"
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
    with Running(tool, home, str(folder / "job.yaml")) as run:
        run.wait_for("trains", timeout=PATIENCE, count=2)
        assert tool.tfjob(home, "stop", "swallow").returncode == 0
        run.finish(PATIENCE)
    assert [one["exitCode"] for one in status(tool, home, "swallow")["replicas"]] == [137, 137]  # type: ignore[attr-defined]
