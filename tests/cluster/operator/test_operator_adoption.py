"""Jobs of training-operator v1.9 in a cluster whose operator is this one now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.client import Client
from support.cluster_golden import check_cluster_golden
from support.operating import operating
from support.room import JOB_NAME, Room, job, now, template
from support.running import wait_until
from tfjob.api.resources import PODS
from tfjob.api.types import TFJOBS

Object = dict[str, Any]
Uids = dict[str, dict[str, str]]
TASKS = ("chief-0", "worker-0", "worker-1")


@pytest.fixture(scope="module")
def left_by_v1_9(quiet_room: Room) -> Uids:
    """Jobs as v1.9 left them when it went: the uids of their pods."""
    for name in ("going", "killed"):
        begin(quiet_room, name, policy="ExitCode")
    begin(quiet_room, "finished", ended=now(-60))
    begin(quiet_room, "expired", ended=now(-60), run_policy={"ttlSecondsAfterFinished": 30})
    return {name: quiet_room.uids(name) for name in ("going", "killed", "finished")}


@pytest.fixture(scope="module")
def team(control_plane: Client, quiet_room: Room, left_by_v1_9: Uids) -> Iterator[Room]:
    """The same namespace, with our operator."""
    with operating(control_plane.kubeconfig, f"--namespace={quiet_room.namespace}"):
        yield quiet_room


def begin(room: Room, name: str, *, ended: str = "", policy: str = "", run_policy: Object | None = None) -> None:
    """A job, its pods and its status as v1.9 writes them; `ended` is when its chief succeeded."""
    room.create(job(name, chief=1, worker=2, policy=policy, run_policy=run_policy))
    uid = room.get(TFJOBS, name)["metadata"]["uid"]
    for task in TASKS:
        room.create(pod_of_v1_9(name, uid, task))
    room.runs(*(f"{name}-{task}" for task in TASKS))
    conditions = [("Created", "True"), ("Running", "True")]
    status: Object = {"replicaStatuses": {"Chief": {"active": 1}, "Worker": {"active": 2}}, "startTime": now(-90)}
    if ended:
        room.ends(f"{name}-chief-0")
        conditions = [("Created", "True"), ("Running", "False"), ("Succeeded", "True")]
        status |= {"completionTime": ended, "replicaStatuses": {"Chief": {"succeeded": 1}, "Worker": {"succeeded": 2}}}
    stamps = {"lastUpdateTime": now(-60), "lastTransitionTime": now(-60)}
    status["conditions"] = [
        {"type": kind, "status": value, "reason": f"TFJob{kind}", "message": f"TFJob {name} is so.", **stamps}
        for kind, value in conditions
    ]
    room.write_status(name, status)


def pod_of_v1_9(name: str, uid: str, task: str) -> Object:
    kind, _, index = task.rpartition("-")
    prefix = "training.kubeflow.org"
    labels = {
        JOB_NAME: name,
        f"{prefix}/operator-name": "tfjob-controller",
        f"{prefix}/replica-type": kind,
        f"{prefix}/replica-index": index,
    }
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": name, "uid": uid}
    references = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    metadata = {"name": f"{name}-{task}", "labels": labels, "ownerReferences": references}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **template(restartPolicy="Never")}


def test_a_running_job_goes_on_without_a_pod_being_touched(team: Room, left_by_v1_9: Uids) -> None:
    started = team.status("going")["startTime"]
    status = team.until("going", "Running", ready="3/3")
    assert (status["attempt"], status["restarts"], status["startTime"]) == (1, 0, started)
    assert [one["type"] for one in status["conditions"]] == ["Created", "Running"]
    wait_until(lambda: set(team.services("going")) == set(TASKS), 60)
    assert team.uids("going") == left_by_v1_9["going"]
    team.ends("going-chief-0")
    check_cluster_golden("operator-succeeded", team.until("going", "Succeeded")["message"])


def test_a_failure_after_that_is_our_first_restart(team: Room, left_by_v1_9: Uids) -> None:
    team.until("killed", "Running", ready="3/3")
    team.ends("killed-worker-1", 137)
    team.until("killed", restarts=1, attempt=2)
    wait_until(
        lambda: (
            set(team.uids("killed")) == set(TASKS)
            and not set(team.uids("killed").values()) & set(left_by_v1_9["killed"].values())
        ),
        60,
        lambda: str(team.status("killed")),
    )


def test_a_finished_job_is_left_alone_but_for_its_time_to_live(team: Room, left_by_v1_9: Uids) -> None:
    wait_until(lambda: team.find(TFJOBS, "expired") is None, 60)
    team.until_pods("expired")
    assert team.uids("finished") == left_by_v1_9["finished"]
    assert team.get(PODS, "finished-worker-0")["status"]["phase"] == "Running", "v1.9 keeps what still ran"
    assert "attempt" not in team.status("finished")
    assert not team.events("finished")
