"""The TensorBoard of a job on a real API server: made with it, replaced by an edit, kept after its end."""

from __future__ import annotations

from typing import Any

from support.cluster_golden import check_cluster_golden
from support.room import Room, job
from support.running import wait_until
from tfjob.api.resources import DEPLOYMENTS, SERVICES
from tfjob.api.types import TFJOBS

Object = dict[str, Any]


def board(team: Room, name: str) -> tuple[Object | None, Object | None]:
    """The Deployment and the Service."""
    return team.find(DEPLOYMENTS, name), team.find(SERVICES, name)


def until_board(team: Room, name: str) -> tuple[Object, Object]:
    wait_until(lambda: all(board(team, name)), 90, lambda: f"{name}: {board(team, name)}")
    server, address = board(team, name)
    assert server is not None
    assert address is not None
    return server, address


def log_dir(server: Object) -> str:
    words: list[str] = server["spec"]["template"]["spec"]["containers"][0]["command"]
    return words[words.index("--logdir") + 1]


def test_it_comes_with_the_job_follows_edits_and_stays_when_the_job_ends(team: Room) -> None:
    name = "curves-tensorboard"
    spec = {"tensorBoard": {"logDir": "s3://bucket/a", "serviceType": "NodePort"}}
    team.create(job("curves", spec=spec, worker=1, run_policy={"cleanPodPolicy": "All"}))
    server, address = until_board(team, name)
    assert log_dir(server) == "s3://bucket/a"
    assert address["spec"]["type"] == "NodePort"
    assert [(port["name"], port["port"], port["targetPort"]) for port in address["spec"]["ports"]] == [
        ("tb-port", 80, 6006)
    ]
    assert [one["name"] for one in server["metadata"]["ownerReferences"]] == ["curves"]
    created = team.until_event("curves", "SuccessfulCreateDeployment")["message"]
    assert name in created
    check_cluster_golden("operator-tensorboard-created", created, NAME=name)

    team.all_run("curves", "worker-0")
    team.patch(TFJOBS, "curves", {"spec": {"tensorBoard": {"logDir": "s3://bucket/b"}}})
    wait_until(lambda: log_dir(board(team, name)[0] or server) == "s3://bucket/b", 90)
    assert until_board(team, name)[1]["metadata"]["uid"] == address["metadata"]["uid"], "its address stays"

    replaced = until_board(team, name)
    team.ends("curves-worker-0")
    team.until("curves", "Succeeded")
    team.until_pods("curves")
    assert [one["metadata"]["uid"] for one in until_board(team, name)] == [one["metadata"]["uid"] for one in replaced]


def test_one_that_cannot_be_made_is_told_and_the_job_goes_on(team: Room) -> None:
    """Here another object has its name."""
    taken = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "taken-tensorboard"},
        "spec": {"ports": [{"port": 1}]},
    }
    team.create(taken)
    team.create(job("taken", spec={"tensorBoard": {"logDir": "s3://bucket/a"}}, worker=1))
    rejected = team.until_event("taken", "FailedCreateService")["message"]
    assert "taken-tensorboard" in rejected
    check_cluster_golden("operator-tensorboard-name-taken", rejected)
    team.all_run("taken", "worker-0")
    team.ends("taken-worker-0")
    team.until("taken", "Succeeded")
    assert team.get(SERVICES, "taken-tensorboard")["spec"]["ports"][0]["port"] == 1
