"""Trainings as pods whose node loses power: it comes back soon, or late, or nobody waits for it; steps are counted.

Part of the long form:

    pytest --long tests/long/training/test_cluster_power.py -s --seed 1
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.client import Client
from support.installed import Installed
from support.long_form import whole
from support.operating import operating
from support.room import Room, room
from support.served import serve_every_job
from support.training.fire import COLLECTIVE, JOB, PATIENCE, SERVERS, SHAPES, Fire, Incident
from support.training.fire_anywhere import DEADLINE, Start
from support.training.fire_in_pods import pin, pods, trainings

pytestmark = [pytest.mark.faults, pytest.mark.long, pytest.mark.root, pytest.mark.tensorflow, pytest.mark.timeout(600)]
pytestmark += [pytest.mark.alone]  # pods of others may be on that node

SAFE, STRUCK = "node-1", "node-3"


@pytest.fixture
def team(node_cluster: Client, node_namespace: str) -> Iterator[Room]:
    """A namespace, and an operator of the whole cluster: another may not see nodes."""
    serve_every_job(node_cluster)
    with operating(node_cluster.kubeconfig), room(node_cluster.kubeconfig, node_namespace) as found:
        yield found


@pytest.fixture
def start(
    tool: Installed, node_cluster: Client, team: Room, tmp_path: Path, seed: int, request: pytest.FixtureRequest
) -> Iterator[Start]:
    """Starts a training of a shape; the moment of its incident follows from the seed and the case."""
    try:
        with trainings(tool, node_cluster, team, tmp_path, random.Random(f"{seed} {request.node.name}")) as begin:
            yield begin
    finally:
        if not node_cluster.has_power(STRUCK):
            node_cluster.restore_power(STRUCK)


def begin_apart(start: Start, shape: str, kind: str, *options: str, **more: Any) -> Fire:
    """A training whose tasks of one kind have a node for themselves."""
    nodes = {one: STRUCK if one == kind else SAFE for one in SHAPES[shape]}
    return start(shape, *options, change=lambda written: pin(written, nodes), **more)


def cut_power(fire: Fire, task: str) -> None:
    """The node of a task is gone, and all that ran on it."""
    place = pods(fire)
    assert place.pod(task)["spec"]["nodeName"] == STRUCK
    place.client.cut_power(STRUCK)


def restart_node(fire: Fire, task: str) -> None:
    """The same, and the node comes back at once."""
    cut_power(fire, task)
    pods(fire).client.restore_power(STRUCK)


POWERLESS = Incident("loses its node's power", cut_power)
REBOOTED = Incident("loses its node's power for a moment", restart_node)


def test_a_node_that_is_back_at_once_costs_a_collective_a_restart_and_no_retry(start: Start) -> None:
    """It tells that it knows nothing of its containers before the chief's exit 1 has settled, and that is the cause."""
    fire = begin_apart(start, COLLECTIVE, "Worker")
    fire.strike(REBOOTED, "worker-0")
    status = fire.finish()
    cause = status["lastRestart"]["cause"]
    assert (status["restarts"], status.get("retries", 0), cause["replica"]) == (1, 0, "worker-0")


def test_a_worker_whose_node_stays_away_fails_the_job_with_the_chiefs_words(start: Start) -> None:
    """Kubernetes takes 50 s to notice that a node is gone; by then the chief's exit 1 has settled."""
    fire = begin_apart(start, COLLECTIVE, "Worker")
    fire.strike(POWERLESS, "worker-0")
    failure = fire.fail()
    assert (failure["jobReason"], failure["replica"], failure["exitCode"]) == ("ReplicaFailed", "chief-0", 1)
    assert "a peer is gone" in failure["lastLines"][-1]


def test_a_gang_whose_node_is_away_for_long_waits_for_it_and_goes_on(start: Start) -> None:
    """A chief that exits with 128 or more asks for another try.

    The worker's old pod may still run on a node that does not answer, so there is no new one before it does.
    """
    fire = begin_apart(start, COLLECTIVE, "Worker", "--when-a-peer-is-lost", "138")
    fire.strike(POWERLESS, "worker-0")
    place = pods(fire)
    lost = place.uids()["worker-0"]
    waiting = place.room.until(JOB, "Restarting", reason="NodeUnreachable", timeout=PATIENCE)
    print(f"after {fire.age()}: {waiting['message']}")
    assert place.uids()["worker-0"] == lost
    fire.since = time.monotonic()
    place.client.restore_power(STRUCK)
    status = fire.finish()
    assert (status["restarts"], status["lastRestart"]["cause"]["exitCode"]) == (1, 138)


@pytest.mark.parametrize("incident", [REBOOTED, whole(POWERLESS)], ids=str)
def test_a_parameter_server_whose_node_lost_power_is_waited_for_until_the_deadline(
    start: Start, incident: Incident
) -> None:
    """TensorFlow is not told that the old server is gone, though a new one may be there; the deadline ends it."""
    fire = begin_apart(start, SERVERS, "PS", run_policy={"activeDeadlineSeconds": DEADLINE})
    fire.strike(incident, "ps-0")
    assert fire.exceed_deadline(DEADLINE).get("retries", 0) == 0
