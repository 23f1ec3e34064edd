"""Collective and parameter server trainings as pods under every kind of incident; steps are counted.

The long form is the whole table:

    pytest --long tests/training/test_cluster_under_fire.py -s --seed 1
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from devcluster.client import Client
from installed import Installed
from room import JOB_NAME, Room
from training.examples import pods_of
from training.fire import (
    CLAIM,
    COLLECTIVE,
    FROZEN,
    JOB,
    KILLED,
    OUT_OF_MEMORY,
    PAUSED,
    PROGRAM,
    SERVERS,
    STEPS,
    TASKS,
    TERMINATED,
    TOO_HUNGRY,
    Fire,
    Incident,
    documents,
)
from training.pods import Training, training

pytestmark = [pytest.mark.faults, pytest.mark.long, pytest.mark.root, pytest.mark.tensorflow, pytest.mark.timeout(600)]

Object = dict[str, Any]
Start = Callable[..., Fire]
MEMORY = "1Gi"


@pytest.fixture
def start(
    tool: Installed, node_cluster: Client, team: Room, tmp_path: Path, seed: int, request: pytest.FixtureRequest
) -> Iterator[Start]:
    """Starts a training of a shape; the moment of its incident follows from the seed and the case."""
    chance = random.Random(f"{seed} {request.node.name}")

    with ExitStack() as stack:

        def begin(
            shape: str, *options: str, change: Callable[[list[Object]], None] = lambda _: None, **more: Any
        ) -> Fire:
            written = documents(shape, tmp_path / "fire", *options, **more)
            change(written)
            at_work = training(written, PROGRAM.parent, node_cluster, team, tool, tmp_path)
            return Fire(stack.enter_context(at_work), tmp_path / "fire", chance)

        yield begin
    # A node that was drained takes pods again.
    for node in node_cluster.get("nodes")["items"]:
        node_cluster.kubectl("uncordon", node["metadata"]["name"])


def pods(fire: Fire) -> Training:
    """The pods of a training."""
    assert isinstance(fire.place, Training)
    return fire.place


def delete(fire: Fire, task: str) -> None:
    """Somebody deletes the pod of a task."""
    place = pods(fire)
    place.client.kubectl("delete", "pod", f"{JOB}-{task}", "-n", place.room.namespace, "--wait=false")


def drain(fire: Fire, task: str) -> None:
    """The node of a task is drained, of this job's pods."""
    place = pods(fire)
    node = place.pod(task)["spec"]["nodeName"]
    place.client.kubectl("drain", node, f"--pod-selector={JOB_NAME}={JOB}", "--force", timeout=120)


def restart_kubelet(fire: Fire, task: str) -> None:
    """The kubelet under a task is killed, and started again."""
    os.kill(kubelet(fire, task), signal.SIGKILL)


def kill_unseen(fire: Fire, task: str) -> None:
    """A task is killed while its kubelet is away, which comes back later, as another process."""
    process, under = pods(fire).process(task), kubelet(fire, task)
    os.kill(under, signal.SIGSTOP)
    os.kill(process, signal.SIGKILL)
    time.sleep(5)
    os.kill(under, signal.SIGKILL)


def kubelet(fire: Fire, task: str) -> int:
    """The kubelet under a task."""
    place = pods(fire)
    return place.client.node_process(place.pod(task)["spec"]["nodeName"], "kubelet")


DELETED = Incident("loses its pod", delete)
DRAINED = Incident("loses its node", drain)
KILLED_UNSEEN = Incident("gets SIGKILL without a kubelet", kill_unseen, 137)
KUBELET_RESTARTED = Incident("gets another kubelet", restart_kubelet)


@pytest.mark.parametrize(("shape", "task"), TASKS)
@pytest.mark.parametrize("incident", [DELETED, DRAINED, KILLED, TERMINATED, OUT_OF_MEMORY], ids=str)
def test_a_training_that_loses_a_task_ends_well_and_repeats_few_steps(
    start: Start, shape: str, task: str, incident: Incident
) -> None:
    """It is one restart, and the task that was struck is its cause; a loss of the machine uses up no retry."""
    fire = start(shape, memory=MEMORY if incident is OUT_OF_MEMORY else "")
    fire.strike(incident, task)
    status = fire.finish()
    cause = status["lastRestart"]["cause"]
    if incident is not DRAINED:  # whose node may have had others of the job
        assert (status["restarts"], cause["replica"]) == (1, task)
    assert status.get("retries", 0) == (0 if incident in (DELETED, DRAINED) else 1)
    assert incident.exit_code in (cause.get("exitCode"), None)
    assert incident.reason in (cause.get("reason"), "")


def test_a_worker_that_is_killed_while_its_kubelet_is_away_is_the_cause_all_the_same(start: Start) -> None:
    """The chief's exit 1 is known first; it is held until the kubelet is back and tells of the worker.

    The settling time of collectives, 15 s, allows for that; that of parameter servers, 5 s, may not.
    """
    fire = start(COLLECTIVE)
    fire.strike(KILLED_UNSEEN, "worker-0")
    status = fire.finish()
    cause = status["lastRestart"]["cause"]
    assert (status["restarts"], cause["replica"], cause["exitCode"]) == (1, "worker-0", 137)


@pytest.mark.parametrize(("shape", "task"), [(COLLECTIVE, "worker-0"), (SERVERS, "worker-1"), (SERVERS, "ps-0")])
@pytest.mark.parametrize("incident", [PAUSED, KUBELET_RESTARTED], ids=str)
def test_what_ends_no_task_costs_nothing_but_time(start: Start, shape: str, task: str, incident: Incident) -> None:
    fire = start(shape)
    fire.strike(incident, task)
    status = fire.finish()
    assert status.get("restarts", 0) == 0
    assert len(fire.steps()) == STEPS


def test_peers_that_give_up_on_a_stopped_worker_by_a_signals_code_start_again_with_it(start: Start) -> None:
    """A chief that exits with 128 or more asks for another try: the stopped worker is killed and everybody resumes."""
    fire = start(COLLECTIVE, "--when-a-peer-is-lost", "138")
    fire.strike(FROZEN, "worker-0")
    status = fire.finish()
    assert status["restarts"] == 1
    assert status["lastRestart"]["cause"]["exitCode"] == 138


def test_peers_that_give_up_on_a_stopped_worker_by_exit_1_fail_the_job(start: Start) -> None:
    """The worker shows no sign of an end, so the chief's word counts: what it said of its peer is in the verdict."""
    fire = start(COLLECTIVE)
    fire.strike(FROZEN, "worker-0")
    failure = fire.fail()
    assert (failure["jobReason"], failure["replica"], failure["exitCode"]) == ("ReplicaFailed", "chief-0", 1)
    assert "a peer is gone" in failure["lastLines"][-1]


@pytest.mark.parametrize(("shape", "task"), [(COLLECTIVE, "worker-0"), (SERVERS, "ps-0")])
def test_a_task_that_takes_too_much_memory_each_time_fails_the_job(start: Start, shape: str, task: str) -> None:
    """The verdict has the limit to raise."""
    fire = start(shape, memory=MEMORY)
    fire.strike(TOO_HUNGRY, task)
    failure = fire.fail()
    assert (failure["jobReason"], failure["replica"], failure["exitCode"]) == ("OOMKilled", task, 137)
    assert "limit 1Gi" in failure["message"]


@pytest.mark.parametrize("shape", [COLLECTIVE, SERVERS])
def test_a_disk_that_is_full_fails_the_job_with_what_the_program_said(start: Start, shape: str) -> None:
    """The disk of each pod has room for no checkpoint."""

    def crowd(written: list[Object]) -> None:
        for pod in pods_of(written[0]):
            (volume,) = [one for one in pod["volumes"] if one["name"] == "tfjob-data"]
            assert volume.pop("persistentVolumeClaim")["claimName"] == CLAIM
            volume["emptyDir"] = {"medium": "Memory", "sizeLimit": "4Ki"}

    failure = start(shape, change=crowd).fail()
    assert failure["exitCode"] == 1
    assert any("No space left on device" in line for line in failure["lastLines"])


@pytest.mark.parametrize(("shape", "task"), [(COLLECTIVE, "worker-0"), (SERVERS, "ps-0")])
def test_a_port_that_is_in_use_fails_the_job(start: Start, shape: str, task: str) -> None:
    """Its peers wait for it without a word; the verdict is TensorFlow's, of the replica that could not serve."""
    failure = start(shape, "--occupy", task).fail()
    assert (failure["replica"], failure["exitCode"]) == (task, 1)
    assert any("Could not start gRPC server" in line for line in failure["lastLines"])
