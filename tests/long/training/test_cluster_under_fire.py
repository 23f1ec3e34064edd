"""Collective and parameter server trainings as pods under every kind of incident; steps are counted.

Part of the long form; with `--scale 1` everything happens to every task:

    pytest --long tests/long/training/test_cluster_under_fire.py -s --seed 1
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.client import Client
from support.installed import Installed
from support.long_form import each_with_each, whole
from support.room import JOB_NAME, Room
from support.training.examples import pods_of
from support.training.fire import (
    CLAIM,
    COLLECTIVE,
    JOB,
    KILLED,
    OUT_OF_MEMORY,
    PAUSED,
    SERVERS,
    SHAPES,
    STEPS,
    TASKS,
    TERMINATED,
    Fire,
    Incident,
)
from support.training.fire_anywhere import MEMORY, Anywhere, Start
from support.training.fire_in_pods import pin, pods, small_disk, trainings

pytestmark = [pytest.mark.faults, pytest.mark.long, pytest.mark.root, pytest.mark.tensorflow, pytest.mark.timeout(600)]

Object = dict[str, Any]


@pytest.fixture
def start(
    tool: Installed, node_cluster: Client, team: Room, tmp_path: Path, seed: int, request: pytest.FixtureRequest
) -> Iterator[Start]:
    """Starts a training of a shape; the moment of its incident follows from the seed and the case."""
    with trainings(tool, node_cluster, team, tmp_path, random.Random(f"{seed} {request.node.name}")) as begin:
        yield begin
    # A node that was drained takes pods again.
    for node in node_cluster.get("nodes")["items"]:
        node_cluster.kubectl("uncordon", node["metadata"]["name"])


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


@pytest.mark.parametrize(
    ("shape", "task", "incident"),
    list(each_with_each(TASKS, [DELETED, DRAINED, KILLED, TERMINATED, OUT_OF_MEMORY])),
)
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


@pytest.mark.parametrize(("shape", "task"), [(COLLECTIVE, "worker-0"), whole(SERVERS, "ps-0")])
def test_a_task_that_is_killed_while_its_kubelet_is_away_is_the_cause_all_the_same(
    start: Start, shape: str, task: str
) -> None:
    """The chief's exit 1 is known first; it is held until the kubelet is back and tells of the other task.

    The settling time, 15 s if the cause may be on another node, allows for that.
    """
    fire = start(shape)
    fire.strike(KILLED_UNSEEN, task)
    status = fire.finish()
    cause = status["lastRestart"]["cause"]
    assert (status["restarts"], cause["replica"], cause["exitCode"]) == (1, task, 137)


@pytest.mark.parametrize(
    ("shape", "task", "incident"),
    list(
        each_with_each(
            [(COLLECTIVE, "worker-0"), (SERVERS, "ps-0"), (SERVERS, "worker-1")], [PAUSED, KUBELET_RESTARTED]
        )
    ),
)
def test_what_ends_no_task_costs_nothing_but_time(start: Start, shape: str, task: str, incident: Incident) -> None:
    fire = start(shape)
    fire.strike(incident, task)
    status = fire.finish()
    assert status.get("restarts", 0) == 0
    assert len(fire.steps()) == STEPS


@pytest.mark.parametrize("shape", [whole(COLLECTIVE), SERVERS])
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


@pytest.mark.parametrize("shape", [COLLECTIVE, whole(SERVERS)])
def test_a_disk_that_fills_up_fails_the_job_and_the_next_run_goes_on_from_the_last_whole_checkpoint(
    start: Start, node_cluster: Client, tmp_path: Path, shape: str
) -> None:
    """The disk is the claim's, mounted on one node, where all pods of the job therefore are."""
    with small_disk(node_cluster, "node-1", tmp_path / "output") as disk:
        fire = start(shape, change=lambda written: pin(written, dict.fromkeys(SHAPES[shape], "node-1")))
        fire.strike(Incident("finds the disk full", lambda *_: disk.fill()), "chief-0")
        failure = fire.fail()
        assert (failure["jobReason"], failure["exitCode"]) == ("ReplicaFailed", 1)
        assert any("No space left on device" in line for line in failure["lastLines"])
        disk.clear()
        fire.since = time.monotonic()
        pods(fire).run_again()
        status = fire.finish()
        assert status.get("restarts", 0) == 0
        assert any("begins after step " in line and "step 0" not in line for line in fire.place.run.lines)


class TestInPods(Anywhere):
    """What is the same there."""
