"""The hand-over from training-operator v1.9 itself, while its jobs run. The long form only.

It is built from its Go module, minutes: `python -m devcluster build training-operator` does it beforehand.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.client import Client, KubectlFailed
from support.installed import Installed
from support.operating import operating
from support.pod_history import UNMARKED, PodHistory, pod_history
from support.room import Room, job, room
from support.running import wait_until
from support.training_operator import WEBHOOK, training_operator
from tfjob.api.resources import PODS
from tfjob.api.types import TFJOBS
from tfjob.operator.install.handover import steps

pytestmark = [pytest.mark.long, pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(900)]

Object = dict[str, Any]
Uids = dict[str, str]
GANG = ("chief-0", "worker-0", "worker-1")
WITH_PS = ("ps-0", "worker-0", "worker-1")
ELSEWHERE = {"managedBy": "kueue.x-k8s.io/multikueue"}


@dataclass
class Left:
    """What v1.9 left behind when it went: pods and services by job, and the jobs as they were."""

    pods: dict[str, Uids] = field(default_factory=dict)
    services: dict[str, Uids] = field(default_factory=dict)
    jobs: dict[str, Object] = field(default_factory=dict)


@dataclass
class Team:
    """A namespace whose jobs v1.9 began, its pods ever since, and what was there when v1.9 went."""

    room: Room
    history: PodHistory
    left: Left


@pytest.fixture(scope="module")
def team(own_cluster: Client, tool: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """Jobs of v1.9, handed over to our operator as an administrator does it with kubectl."""
    folder = tmp_path_factory.mktemp("hand-over")
    namespace = own_cluster.namespace()
    with room(own_cluster.kubeconfig, namespace) as found, pod_history(own_cluster, namespace) as history:
        with training_operator(own_cluster, folder):
            begin(found)
        left = remember(found)
        gap(own_cluster, found, tool, folder)
        with operating(own_cluster.kubeconfig):
            yield Team(found, history, left)


def begin(team: Room) -> None:
    """What v1.9 does in its time: jobs run, restart, are suspended and end; one has pods that did not start yet."""
    for name in ("going", "grown", "drained", "finished", "failed", "paused"):
        start(team, job(name, Chief=1, Worker=2), *GANG)
    for name in ("killed", "unseen"):
        start(team, job(name, Chief=1, Worker=2, policy="ExitCode"), *GANG)
    start(team, job("served", PS=1, Worker=2, policy="ExitCode"), *WITH_PS)
    restart(team, "killed", "worker-0")
    start(team, job("bumpy", Chief=1, Worker=2, policy="OnFailure", run_policy={"backoffLimit": 3}), *GANG)
    team.restarts_in_place("bumpy-worker-0", 1, 2)
    team.ends("finished-chief-0")
    until(team, "finished", "Succeeded")
    team.ends("failed-worker-1", 1)
    until(team, "failed", "Failed")
    team.edit("paused", runPolicy={"suspend": True})
    until(team, "paused", "Suspended")
    team.until_pods("paused")
    team.create(job("elsewhere", run_policy=ELSEWHERE, Worker=1))
    team.create(job("pending", Chief=1, Worker=2))
    team.until_pods("pending", *GANG)
    until(team, "pending", "Created")


def start(team: Room, body: Object, *tasks: str) -> None:
    """A job that runs."""
    name = body["metadata"]["name"]
    team.create(body)
    team.until_pods(name, *tasks)
    team.runs(*(f"{name}-{task}" for task in tasks))
    until_all_run(team, name, len(tasks))
    wait_until(lambda: set(team.services(name)) == set(tasks), 60)


def restart(team: Room, name: str, task: str) -> None:
    """A killed replica of a job that v1.9 starts again; the others run on."""
    before = team.uids(name)
    team.ends(f"{name}-{task}", 137)
    wait_until(lambda: team.uids(name).get(task, before[task]) != before[task], 60)
    team.runs(f"{name}-{task}")
    until_all_run(team, name, len(before))


def until_all_run(team: Room, name: str, count: int) -> None:
    """Waits until v1.9 has counted all pods of a job."""
    until(team, name, "Running")
    team.until_status(
        name, lambda status: sum(one.get("active", 0) for one in status["replicaStatuses"].values()) == count
    )


def until(team: Room, name: str, condition: str) -> None:
    """Waits until a condition is the last one of a job and holds."""
    team.until_status(
        name,
        lambda status: (
            [(one["type"], one["status"]) for one in status.get("conditions", ())][-1:] == [(condition, "True")]
        ),
    )


def remember(team: Room) -> Left:
    left = Left()
    for one in team.objects(TFJOBS):
        name = one["metadata"]["name"]
        left.jobs[name] = one
        left.pods[name] = team.uids(name)
        left.services[name] = service_uids(team, name)
    return left


def service_uids(team: Room, name: str) -> Uids:
    return {task: one["metadata"]["uid"] for task, one in team.services(name).items()}


def gap(client: Client, team: Room, tool: Installed, folder: Path) -> None:
    """Between the two: the webhook and the CRD of v1.9 go, a replica is killed, one is lost, and a job is made."""
    with pytest.raises(KubectlFailed, match=r"failed calling webhook"):
        client.apply(job("late", Worker=1), namespace=team.namespace)
    (step,) = steps([], [client.get("validatingwebhookconfiguration", WEBHOOK)], {"TFJob"}, "ours")
    subprocess.run(["sh", "-c", step.command], env=client.environment(), check=True)
    manifests = tool.tfjob(folder, "operator", "manifests", "--crd-only")
    assert manifests.returncode == 0, manifests.stderr
    client.kubectl("apply", "-f", "-", stdin=manifests.stdout)
    team.ends("unseen-worker-1", 137)
    team.delete(PODS, "drained-worker-1")
    # Both take a moment to be gone: the schema of v1.9 does not know this field.
    late = job("late", Worker=1, spec={"restartScope": "Gang"})
    wait_until(lambda: is_taken(client, team, late), 60)


def is_taken(client: Client, team: Room, body: Object) -> bool:
    try:
        client.apply(body, namespace=team.namespace)
    except KubectlFailed:
        return False
    return True


def test_a_plain_apply_replaces_the_crd_of_v1_9(
    team: Team, own_cluster: Client, tool: Installed, tmp_path: Path
) -> None:
    """Which v1.9 applies server-side, so that kubectl does not know what to remove."""
    stored = own_cluster.get("crd", "tfjobs.kubeflow.org")["spec"]
    printed = yaml.safe_load_all(tool.tfjob(tmp_path, "operator", "manifests", "--crd-only").stdout)
    (wanted,) = [one["spec"] for one in printed if one["metadata"]["name"] == "tfjobs.kubeflow.org"]
    assert [one["name"] for one in stored["versions"]] == [one["name"] for one in wanted["versions"]]
    assert stored["versions"][0]["schema"] == wanted["versions"][0]["schema"]
    assert stored["names"]["shortNames"] == wanted["names"]["shortNames"]


@pytest.mark.parametrize("name", ["going", "grown", "served", "killed"])
def test_a_running_job_goes_on_with_the_pods_and_services_that_it_has(team: Team, name: str) -> None:
    status = team.room.until(name, "Running", ready="3/3")
    before = team.left.jobs[name]["status"]
    assert (status["attempt"], status["restarts"], status["startTime"]) == (1, 0, before["startTime"])
    assert status["conditions"] == before["conditions"]
    assert status["replicaStatuses"] == before["replicaStatuses"]
    assert team.room.uids(name) == team.left.pods[name]
    assert service_uids(team.room, name) == team.left.services[name]


def test_a_job_of_v1_9_succeeds_when_its_chief_does(team: Team) -> None:
    team.room.ends("going-chief-0")
    status = team.room.until("going", "Succeeded")
    assert status["message"] == "chief-0 exited 0"
    assert [(one["type"], one["status"]) for one in status["conditions"]] == [
        ("Created", "True"),
        ("Running", "False"),
        ("Succeeded", "True"),
    ]
    assert team.history.attempts("going") == {task: [UNMARKED] for task in GANG}


def test_a_killed_worker_starts_the_gang_again_also_where_v1_9_had_restarted_one(team: Team) -> None:
    team.room.ends("killed-worker-1", 143)
    team.room.until("killed", restarts=1, attempt=2)
    second = {"chief-0": [UNMARKED, 2], "worker-0": [UNMARKED, UNMARKED, 2], "worker-1": [UNMARKED, 2]}
    wait_until(lambda: team.history.attempts("killed") == second, 60, lambda: f"{team.history.attempts('killed')}")
    team.room.all_run("killed", *GANG)
    assert service_uids(team.room, "killed") == team.left.services["killed"]
    team.room.ends("killed-chief-0")
    team.room.until("killed", "Succeeded")
    assert team.history.attempts("killed") == second


def test_a_killed_parameter_server_starts_again_alone(team: Team) -> None:
    team.room.ends("served-ps-0", 137)
    wanted = {"ps-0": [UNMARKED, 2], "worker-0": [UNMARKED], "worker-1": [UNMARKED]}
    wait_until(lambda: team.history.attempts("served") == wanted, 60, lambda: f"{team.history.attempts('served')}")
    team.room.all_run("served", *WITH_PS)
    assert service_uids(team.room, "served") == team.left.services["served"]
    team.room.ends("served-worker-0")
    team.room.until("served", "Succeeded", restarts=1)
    assert team.history.attempts("served") == wanted


def test_restarts_in_place_count_as_before(team: Team) -> None:
    status = team.room.until("bumpy", "Running", ready="3/3")
    assert (status["attempt"], status["restarts"], status["taskRestarts"]) == (1, 2, {"worker-0": 2})
    assert team.room.uids("bumpy") == team.left.pods["bumpy"]


def test_pods_that_had_not_started_are_waited_for(team: Team) -> None:
    team.room.until("pending", "Pending")
    team.room.all_run("pending", *GANG)
    assert team.room.uids("pending") == team.left.pods["pending"]
    assert service_uids(team.room, "pending") == team.left.services["pending"]


def test_a_worker_that_was_killed_while_nobody_watched_starts_its_gang_again(team: Team) -> None:
    team.room.until("unseen", restarts=1, attempt=2)
    second = {task: [UNMARKED, 2] for task in GANG}
    wait_until(lambda: team.history.attempts("unseen") == second, 60, lambda: f"{team.history.attempts('unseen')}")
    team.room.all_run("unseen", *GANG)
    assert service_uids(team.room, "unseen") == team.left.services["unseen"]


def test_a_pod_that_went_while_nobody_watched_is_made_again_beside_those_that_run(team: Team) -> None:
    team.room.all_run("drained", *GANG)
    assert team.history.attempts("drained") == {
        "chief-0": [UNMARKED],
        "worker-0": [UNMARKED],
        "worker-1": [UNMARKED, 1],
    }


def test_a_gang_of_v1_9_starts_again_when_its_size_changes(team: Team) -> None:
    """Its pods have the TF_CONFIG of the old size."""
    specs = team.room.get(TFJOBS, "grown")["spec"]["tfReplicaSpecs"]
    team.room.edit("grown", tfReplicaSpecs={"Worker": {**specs["Worker"], "replicas": 3}})
    team.room.until("grown", attempt=2)
    wanted = {**{task: [UNMARKED, 2] for task in GANG}, "worker-2": [2]}
    wait_until(lambda: team.history.attempts("grown") == wanted, 60, lambda: f"{team.history.attempts('grown')}")
    team.room.all_run("grown", *GANG, "worker-2")


def test_a_job_that_v1_9_suspended_stays_so_until_it_is_resumed(team: Team) -> None:
    team.room.until("paused", "Suspended")
    assert team.room.pods("paused") == {}
    team.room.edit("paused", runPolicy={"suspend": False})
    team.room.all_run("paused", *GANG)
    wait_until(lambda: set(team.room.services("paused")) == set(GANG), 60)
    team.room.ends("paused-chief-0")
    team.room.until("paused", "Succeeded", restarts=0)


def test_a_job_that_was_made_while_nobody_watched_starts(team: Team) -> None:
    team.room.all_run("late", "worker-0")


@pytest.mark.parametrize("name", ["finished", "failed", "elsewhere"])
def test_a_job_that_has_ended_or_is_managed_by_another_is_not_touched(team: Team, name: str) -> None:
    team.room.until_status("late", lambda status: "state" in status)
    left = team.left.jobs[name]
    assert team.room.get(TFJOBS, name)["metadata"] == left["metadata"], "nobody has written it since"
    assert team.room.uids(name) == team.left.pods[name]
    assert service_uids(team.room, name) == team.left.services[name]
    assert ("status" in left, len(team.left.pods[name])) == ((False, 0) if name == "elsewhere" else (True, 3))
