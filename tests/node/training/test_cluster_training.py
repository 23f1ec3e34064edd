"""Real TensorFlow in real pods: the examples as they are, and under the faults that a cluster has."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from devcluster.client import Client
from devcluster.images import BUSYBOX
from devcluster.mounts import host_python
from support.hosted_servers import hosted_scripts, hosted_servers
from support.installed import Installed
from support.room import JOB_NAME, Room, job, template
from support.running import Running
from support.training.examples import accuracy, documents_of, shortened
from support.training.gated import Gate, gated_copy
from support.training.pods import Training, training

pytestmark = [pytest.mark.root, pytest.mark.timeout(900)]

PROGRAMS = Path(__file__).parents[2] / "programs"
PATIENCE = 300
"""Seconds that a step of a training may take on a machine that does much else."""


Train = Callable[[list[dict[str, Any]], str, int], tuple[Training, Gate]]


@pytest.fixture
def train(tool: Installed, node_cluster: Client, team: Room, tmp_path: Path) -> Iterator[Train]:
    """Starts the documents of an example on the cluster; the training waits at the step that is given."""
    with ExitStack() as stack:

        def begin(documents: list[dict[str, Any]], example: str, first: int) -> tuple[Training, Gate]:
            program, gate = gated_copy(example, tmp_path / "examples", first)
            return stack.enter_context(training(documents, program, node_cluster, team, tool, tmp_path)), gate

        yield begin


@pytest.fixture
def servers(node_cluster: Client, team: Room, tmp_path: Path) -> Iterator[None]:
    """Default parameter servers find TensorFlow."""
    with hosted_servers(node_cluster, team.namespace, host_python(), tmp_path):
        yield


@pytest.mark.long
@pytest.mark.faults
@pytest.mark.tensorflow
def test_a_killed_worker_takes_the_chief_along_and_both_resume_from_the_checkpoint(
    train: Train,
) -> None:
    """With training-operator v1.9 such a job fails for good: the chief's exit 1, a consequence, is taken for its own
    fault. Here it is one restart, of both."""
    documents = shortened("mnist", 140)
    spec = documents[0]["spec"]
    spec["runPolicy"]["backoffLimit"] = 5
    del spec["tfReplicaSpecs"]["Evaluator"]
    at_work, gate = train(documents, "mnist", 20)
    at_work.run.wait_for_step(20, "chief-0", timeout=PATIENCE)  # only the chief's checkpoint counts
    first = at_work.uids()
    at_work.kill("worker-0")
    at_work.run.wait_for("chief-0  | resumed from step", PATIENCE)
    assert not first.items() & at_work.uids().items()
    gate.let_train_to(140)
    assert at_work.run.finish(PATIENCE) == 0
    status = at_work.status()
    assert (status["state"], status["restarts"], status["attempt"]) == ("Succeeded", 1, 2)
    assert status["lastRestart"]["cause"]["replica"] == "worker-0"
    assert status["lastRestart"]["cause"]["exitCode"] == 137


@pytest.mark.faults
@pytest.mark.tensorflow
def test_mnist_comes_to_its_end_though_its_chief_is_killed_and_a_node_drained(
    train: Train, node_cluster: Client
) -> None:
    """Both times chief and worker start again together; the drain uses up nothing of backoffLimit.

    Half of the steps: how well the example learns in all of them is measured without a cluster.
    """
    at_work, gate = train(shortened("mnist", 300, checkpoint_every=50), "mnist", 50)
    at_work.run.wait_for_step(50, "chief-0", timeout=PATIENCE)  # only the chief's checkpoint counts
    evaluator = at_work.uids()["evaluator-0"]
    at_work.kill("chief-0")
    at_work.run.wait_for("chief-0     | resumed from step", PATIENCE)
    assert at_work.uids()["evaluator-0"] == evaluator
    gate.let_train_to(100)
    at_work.run.wait_for_step(100, "chief-0", timeout=PATIENCE)
    node = at_work.pod("worker-0")["spec"]["nodeName"]
    with_evaluator = at_work.pod("evaluator-0")["spec"]["nodeName"] == node  # it is in no gang: a restart of its own
    try:
        node_cluster.kubectl("drain", node, f"--pod-selector={JOB_NAME}=mnist", "--force", timeout=PATIENCE)
        at_work.run.wait_for("chief-0     | resumed from step", PATIENCE, count=2)
        assert at_work.pod("worker-0")["spec"]["nodeName"] != node
    finally:
        node_cluster.kubectl("uncordon", node)
    gate.let_train_to(300)
    assert at_work.run.finish(PATIENCE) == 0
    assert accuracy(at_work.run.lines) >= 0.9
    assert list(at_work.output.glob("output/model/1/saved_model.pb"))
    status = at_work.status()
    assert (status["state"], status["retries"]) == ("Succeeded", 1)
    assert 2 <= status["restarts"] <= 2 + with_evaluator  # both losses of a drain may be seen at once


@pytest.mark.faults
@pytest.mark.tensorflow
def test_mnist_with_a_parameter_server_comes_to_its_end_though_tasks_are_lost(
    train: Train, node_cluster: Client, team: Room, servers: None
) -> None:
    """The server, a default one, is killed, and of that the chief dies; a worker is killed, and the evaluator's pod
    deleted by hand. Nobody else restarts."""
    at_work, gate = train(documents_of("mnist-ps"), "mnist-ps", 200)
    at_work.run.wait_for_step(200, timeout=PATIENCE)
    first = at_work.uids()
    at_work.kill("ps-0")
    at_work.run.wait_for("resumed from step", PATIENCE)
    second = at_work.uids()
    undisturbed = {task for task in first if first[task] == second[task]}
    assert undisturbed == {"worker-0", "worker-1", "evaluator-0"}, "\n".join(at_work.run.lines)
    at_work.kill("worker-1")
    gate.let_train_to(600)  # the coordinator finds out that a worker is gone
    team.until_status("mnist-ps", lambda status: "worker-1" in status.get("taskRestarts", {}), PATIENCE)
    node_cluster.kubectl("delete", "pod", "mnist-ps-evaluator-0", "-n", team.namespace, "--wait=false")
    team.until_status("mnist-ps", lambda status: "evaluator-0" in status.get("taskRestarts", {}), PATIENCE)
    gate.let_train_to(1200)
    assert at_work.run.finish(PATIENCE) == 0
    assert accuracy(at_work.run.lines) >= 0.95
    status = at_work.status()
    assert status["taskRestarts"] == {"chief-0": 1, "evaluator-0": 1, "ps-0": 1, "worker-1": 1}
    assert (status["state"], status["restarts"], status["retries"]) == ("Succeeded", 3, 2)


@pytest.fixture
def there(tool: Installed, node_cluster: Client, team: Room, tmp_path: Path) -> Iterator[Installed]:
    """The tool on the cluster; pods whose files were sent find TensorFlow."""
    with hosted_scripts(node_cluster, team.namespace, host_python(), tmp_path):
        yield dataclasses.replace(tool, env={**tool.env, "KUBECONFIG": str(node_cluster.kubeconfig)})


@pytest.mark.long
@pytest.mark.tensorflow
def test_a_script_without_a_manifest_trains_in_pods(there: Installed, team: Room, tmp_path: Path) -> None:
    """Two workers train one model together, in copies of its folder."""
    assert there.tfjob(tmp_path / "home", "init", "multi-worker", str(tmp_path / "work")).returncode == 0
    words = (
        "train.py",
        "--workers",
        "2",
        "--on",
        "k8s",
        "-n",
        team.namespace,
        "--image",
        BUSYBOX,
        "--",
        "--steps",
        "100",
        "--checkpoint-every",
        "50",
    )
    with Running(there, tmp_path / "home", *words, cwd=tmp_path / "work") as run:
        assert run.finish(PATIENCE) == 0
    for worker, step in (("worker-0", 100), ("worker-1", 50)):  # when the first is done, the other one may be ended
        assert any(line.startswith(f"step {step}/100 loss") for line in run.lines_of(worker)), run.lines
    assert run.lines[-1].startswith("train ")


@pytest.mark.long
@pytest.mark.tensorflow
def test_keras_fit_on_two_workers_trains_in_pods(there: Installed, team: Room, tmp_path: Path) -> None:
    """The layer travels with the code, and its use is a line in the log; results are those of a custom loop."""
    package = tmp_path / "work" / "pkg"
    package.mkdir(parents=True)
    shutil.copy(PROGRAMS / "keras_workers.py", package / "train.py")
    where = ("--on", "k8s", "-n", team.namespace, "--image", BUSYBOX, "--name", "keras")
    with Running(
        there,
        tmp_path / "home",
        *("-m", "pkg.train", "--workers", "2", *where, "--", "fit", "loop"),
        cwd=tmp_path / "work",
    ) as run:
        assert run.finish(PATIENCE) == 0
    assert sum("trains on several workers with the compatibility layer" in line for line in run.lines) == 2
    found = [json.loads(text) for line in run.lines if (text := line.partition(" | ")[2]).startswith('{"part"')]
    results = {part: [one for one in found if one["part"] == part] for part in ("fit", "loop")}
    assert len(results["fit"]) == len(results["loop"]) == 2
    assert results["fit"][0] == results["fit"][1]
    for result in results["loop"]:
        assert result["loss"] == pytest.approx(results["fit"][0]["loss"], rel=1e-5)
        assert result["weights"] == pytest.approx(results["fit"][0]["weights"], rel=1e-5)


@pytest.mark.faults
def test_a_replica_that_needs_more_memory_than_its_limit_is_tried_twice(team: Room) -> None:
    """The verdict names the limit to raise."""
    hog = {
        "image": BUSYBOX,
        "imagePullPolicy": "IfNotPresent",
        "command": ["tail", "/dev/zero"],
        "resources": {"limits": {"memory": "32Mi"}},
    }
    team.create(job("hungry", worker={"restartPolicy": "ExitCode", "template": template(container=hog)}))
    status = team.until("hungry", "Failed", timeout=PATIENCE)
    assert (status["reason"], status["restarts"]) == ("OOMKilled", 1)
    assert status["failure"]["exitCode"] == 137
    assert "32Mi" in status["failure"]["message"]
