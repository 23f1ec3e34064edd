"""Restarts, scaling and suspension on a real API server: which pods go, which stay, and what was written before."""

from __future__ import annotations

from typing import Any

from devcluster.client import Client
from support.room import Room, job, now, template
from support.running import wait_until
from tfjob.api.resources import PODS
from tfjob.api.types import TFJOBS

Object = dict[str, Any]


def remade(team: Room, name: str, before: dict[str, str], *, others: bool = False) -> dict[str, str]:
    """Waits until a job has a full set of pods again, none of which (or with `others`, not all) was there before."""

    def is_so() -> bool:
        now = team.uids(name)
        changed = [task for task in now if now[task] != before[task]] if now.keys() == before.keys() else []
        return bool(changed) if others else len(changed) == len(before)

    wait_until(is_so, 60, lambda: f"{before} then {team.uids(name)}, {team.status(name)}")
    return team.uids(name)


def test_a_restart_is_recorded_and_then_carried_out_by_uid_and_under_the_same_name(
    team: Room, control_plane: Client
) -> None:
    team.create(job("again", chief=1, ps=1, worker=2, policy="ExitCode"))
    tasks = ("chief-0", "ps-0", "worker-0", "worker-1")
    team.all_run("again", *tasks)
    before = team.uids("again")
    team.ends("again-worker-1", 137)
    after = remade(team, "again", before, others=True)
    assert {task for task in tasks if before[task] != after[task]} == {"worker-1"}, "with a PS only what was lost"
    status = team.until("again", restarts=1)
    assert status["taskRestarts"] == {"worker-1": 1}
    assert status["lastRestart"]["cause"]["exitCode"] == 137
    team.runs("again-worker-1")
    status = team.until("again", "Running", ready="4/4")
    assert [one["type"] for one in status["conditions"]] == ["Created", "Running"]
    event = team.until_event("again", "TFJobRestarting")
    assert event["type"] == "Warning"

    if control_plane.folder is None:
        return
    wait_until(lambda: len(writes(control_plane, team, "create", "pods", "again-worker-1")) == 2, 60)
    (deleted,) = writes(control_plane, team, "delete", "pods", "again-worker-1")
    statuses = writes(control_plane, team, "update", "tfjobs", "again")
    recorded = [status for status in statuses if received(status) < received(deleted)]
    made = writes(control_plane, team, "create", "pods", "again-worker-1")[-1]
    assert answered(recorded[-1]) <= received(deleted) < received(made)


def writes(cluster: Client, team: Room, verb: str, resource: str, name: str) -> list[Object]:
    """What the audit log knows of one object, oldest first."""
    place = {"namespace": team.namespace, "resource": resource, "name": name}
    return [
        write for write in cluster.writes() if write["verb"] == verb and write["objectRef"].items() >= place.items()
    ]


def received(write: Object) -> str:
    """When a request came."""
    return str(write["requestReceivedTimestamp"])


def answered(write: Object) -> str:
    """When it was answered."""
    return str(write["stageTimestamp"])


def test_a_gang_restarts_as_a_whole_when_no_pod_of_the_old_attempt_is_left(team: Room) -> None:
    """One of its pods takes its time to go: until then none is made."""
    held = {"replicas": 2, "restartPolicy": "ExitCode", "template": template(metadata={"finalizers": ["test/held"]})}
    team.create(job("gang", chief=1, worker=held, policy="ExitCode"))
    team.all_run("gang", "chief-0", "worker-0", "worker-1")
    before = team.uids("gang")
    team.ends("gang-chief-0", 143)
    team.until_pods("gang", "worker-0", "worker-1")
    wait_until(lambda: all("deletionTimestamp" in pod["metadata"] for pod in team.pods("gang").values()), 60)
    team.release("gang-worker-0")
    team.until_pods("gang", "worker-1")
    team.release("gang-worker-1")
    remade(team, "gang", before)
    status = team.until("gang", attempt=2, restarts=1)
    assert status["state"] == "Restarting"
    for name in ("gang-worker-0", "gang-worker-1"):
        team.release(name)


def test_a_pod_that_somebody_deletes_is_made_again_and_uses_up_no_limit(team: Room) -> None:
    team.create(job("deleted", worker=1, run_policy={"backoffLimit": 0}))
    team.all_run("deleted", "worker-0")
    before = team.uids("deleted")
    team.delete(PODS, "deleted-worker-0")
    remade(team, "deleted", before)
    team.all_run("deleted", "worker-0")
    status = team.status("deleted")
    assert (status["restarts"], status.get("retries", 0)) == (1, 0)


def test_a_finished_replica_is_not_run_again_when_its_pod_is_deleted(team: Room) -> None:
    team.create(job("done", chief=1, ps=1, worker=1))
    team.all_run("done", "chief-0", "ps-0", "worker-0")
    team.ends("done-worker-0")
    team.until("done", completedIndexes={"Worker": "0"})
    team.delete(PODS, "done-worker-0")
    team.until_pods("done", "chief-0", "ps-0")
    team.ends("done-chief-0")
    assert team.until("done", "Succeeded")["replicaStatuses"]["Worker"] == {"succeeded": 1}
    assert "worker-0" not in team.pods("done")


def test_suspending_removes_the_pods_and_resuming_makes_them_again(team: Room) -> None:
    team.create(job("pause", worker=2, run_policy={"suspend": True}))
    status = team.until("pause", "Suspended")
    assert [one["type"] for one in status["conditions"]] == ["Created", "Suspended"]
    assert "startTime" not in status
    assert not team.pods("pause")

    team.edit("pause", runPolicy={"suspend": False})
    team.all_run("pause", "worker-0", "worker-1")
    first = team.status("pause")["startTime"]
    before = team.uids("pause")

    team.edit("pause", runPolicy={"suspend": True})
    team.until("pause", "Suspended")
    team.until_pods("pause")
    wait_until(lambda: not team.services("pause"), 60)
    status = team.status("pause")
    conditions = {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}
    assert conditions["Running"] == ("False", "TFJobSuspended")
    assert conditions["Suspended"] == ("True", "TFJobSuspended")
    assert status["startTime"] == first

    wait_until(lambda: now() > first, 60)
    team.edit("pause", runPolicy={"suspend": False})
    team.all_run("pause", "worker-0", "worker-1")
    assert not set(team.uids("pause").values()) & set(before.values())
    status = team.status("pause")
    assert {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}["Suspended"] == (
        "False",
        "TFJobResumed",
    )
    assert status["startTime"] > first
    assert status["restarts"] == 0


def test_a_job_with_parameter_servers_is_scaled_without_touching_what_runs(team: Room) -> None:
    def scaled(count: int) -> Object:
        return {"chief": {"replicas": 1}, "worker": {"replicas": count}}

    team.create(job("scale", chief=1, ps=1, worker=1))
    team.all_run("scale", "chief-0", "ps-0", "worker-0")
    before = team.uids("scale")
    team.edit("scale", tfReplicaSpecs=scaled(3))
    team.until_pods("scale", "chief-0", "ps-0", "worker-0", "worker-1", "worker-2")
    team.runs("scale-worker-1", "scale-worker-2")
    team.until("scale", "Running", ready="5/5")
    team.edit("scale", tfReplicaSpecs=scaled(1))
    team.until_pods("scale", "chief-0", "ps-0", "worker-0")
    team.until("scale", "Running", ready="3/3")
    assert team.uids("scale") == before
    wait_until(lambda: set(team.services("scale")) == set(before), 60)


def test_a_gang_that_is_scaled_starts_again_with_a_new_tf_config(team: Room) -> None:
    team.create(job("resize", worker=2))
    team.all_run("resize", "worker-0", "worker-1")
    before = team.uids("resize")
    team.edit("resize", tfReplicaSpecs={"worker": {"replicas": 3}})
    team.until_pods("resize", "worker-0", "worker-1", "worker-2")
    wait_until(lambda: not set(team.uids("resize").values()) & set(before.values()), 60)
    team.until_pods("resize", "worker-0", "worker-1", "worker-2")
    assert team.status("resize")["restarts"] == 0


def test_a_job_of_another_controller_is_not_touched(team: Room) -> None:
    team.create(job("theirs", worker=1, run_policy={"managedBy": "kueue.x-k8s.io/multikueue"}))
    team.create(job("ours", worker=1, run_policy={"managedBy": "kubeflow.org/training-operator"}))
    team.until_pods("ours", "worker-0")
    assert not team.pods("theirs")
    assert "status" not in team.get(TFJOBS, "theirs")


def test_the_next_job_of_a_name_waits_for_the_pods_of_the_one_before(team: Room) -> None:
    held = template(metadata={"finalizers": ["test/held"]})
    team.create(job("heir", worker={"template": held}))
    team.all_run("heir", "worker-0")
    before = team.uids("heir")
    team.delete(TFJOBS, "heir")
    wait_until(lambda: team.find(TFJOBS, "heir") is None, 60)
    team.create(job("heir", worker=1))
    status = team.until_status("heir", lambda status: bool(status.get("reason")) and status["reason"] != "Starting")
    assert status["state"] == "Pending"
    assert team.uids("heir") == before
    wait_until(lambda: "deletionTimestamp" in team.pods("heir")["worker-0"]["metadata"], 180)  # the garbage collector's
    team.release("heir-worker-0")
    remade(team, "heir", before)
    team.all_run("heir", "worker-0")
    assert team.status("heir")["restarts"] == 0
