"""How jobs end on a real API server: rules, verdicts, limits on time, and what stays afterwards."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from support.cluster_golden import check_cluster_golden
from support.room import Room, job, now, template
from support.running import wait_until
from tfjob.api.resources import PODS
from tfjob.api.types import TFJOBS

LATE = 30.0
"""Seconds that a limit may be late on a machine that does much else; at the next event it would be minutes."""


@pytest.mark.parametrize(
    ("policy", "left"), [("All", set()), ("Running", {"chief-0"}), (None, {"chief-0"}), ("None", {"chief-0", "ps-0"})]
)
def test_what_stays_after_success_is_what_clean_pod_policy_says(team: Room, policy: str | None, left: set[str]) -> None:
    name = f"clean-{str(policy).lower()}" if policy else "clean"
    team.create(job(name, chief=1, ps=1, run_policy={"cleanPodPolicy": policy} if policy else None))
    team.all_run(name, "chief-0", "ps-0")
    team.ends(f"{name}-chief-0")
    team.until(name, "Succeeded")
    team.until_pods(name, *left)
    wait_until(lambda: set(team.services(name)) == left, 60)


def test_a_failure_names_the_replica_its_code_and_its_last_lines(team: Room) -> None:
    team.create(job("verdict", chief=1, worker=1))
    team.all_run("verdict", "chief-0", "worker-0")
    team.ends("verdict-worker-0", 3, message="Traceback\nValueError: no data", finishedAt=now(-1))
    settling = team.until("verdict", "Restarting", reason="Settling")
    assert [one["type"] for one in settling["conditions"]] == ["Created", "Running"]
    team.ends("verdict-chief-0", 1)
    status = team.until("verdict", "Failed")
    failure = status["failure"]
    assert (failure["replica"], failure["exitCode"]) == ("worker-0", 3)
    assert failure["lastLines"][-1] == "ValueError: no data"
    assert (status["reason"], status["conditions"][-1]["reason"]) == ("ReplicaFailed", "TFJobFailed")
    event = team.until_event("verdict", "TFJobFailed")
    assert event["type"] == "Warning"
    assert "ValueError: no data" in event["message"]
    check_cluster_golden("operator-failed", f"{status['message']}\n{event['message']}", NAMESPACE=team.namespace)
    assert set(team.pods("verdict")) == {"chief-0", "worker-0"}, "failed pods stay, so that their logs can be read"


def test_a_known_error_has_advice_in_the_status_and_the_event(team: Room) -> None:
    team.create(job("known", worker=1))
    team.all_run("known", "worker-0")
    log = "    return fit(x)\n}) with an unsupported type (<class 'tensorflow.python.distribute.values.PerReplica'>)"
    team.ends("known-worker-0", 1, message=log)
    failure = team.until("known", "Failed")["failure"]
    assert "TF_USE_LEGACY_KERAS" in failure["advice"]
    assert failure["advice"] in team.until_event("known", "TFJobFailed")["message"]


def test_deadline_and_time_to_live_fire_without_any_event(team: Room) -> None:
    team.create(job("slow", worker=2, run_policy={"activeDeadlineSeconds": 2, "ttlSecondsAfterFinished": 3}))
    status = team.until("slow", "Failed")
    assert status["reason"] == "DeadlineExceeded"
    assert 2 <= seconds(status["completionTime"]) - seconds(status["startTime"]) < 2 + LATE
    team.until_pods("slow")
    wait_until(lambda: team.find(TFJOBS, "slow") is None, 3 + LATE)
    assert time.time() >= seconds(status["completionTime"]) + 3


def test_a_deadline_keeps_what_clean_pod_policy_none_says(team: Room) -> None:
    """Unlike v1.9, which deletes the pods whatever the policy is."""
    team.create(job("kept", worker=1, run_policy={"activeDeadlineSeconds": 1, "cleanPodPolicy": "None"}))
    team.until("kept", "Failed")
    assert set(team.pods("kept")) == {"worker-0"}


def test_no_restart_is_left_after_backoff_limit(team: Room) -> None:
    team.create(job("backoff", worker=1, policy="ExitCode", run_policy={"backoffLimit": 1}))
    team.all_run("backoff", "worker-0")
    team.ends("backoff-worker-0", 137)
    team.until("backoff", restarts=1)
    wait_until(lambda: "containerStatuses" not in team.pods("backoff").get("worker-0", {"status": {}})["status"], 60)
    team.all_run("backoff", "worker-0")
    team.ends("backoff-worker-0", 137)
    status = team.until("backoff", "Failed")
    assert (status["reason"], status["restarts"]) == ("BackoffLimitExceeded", 1)
    assert "backoffLimit 1" in status["message"]


def test_restarts_in_place_count_too(team: Room) -> None:
    team.create(job("in-place", worker=1, policy="OnFailure", run_policy={"backoffLimit": 2}))
    team.all_run("in-place", "worker-0")
    before = team.uids("in-place")
    team.restarts_in_place("in-place-worker-0", 1, count=2)
    team.until("in-place", "Running", restarts=2)
    assert team.uids("in-place") == before
    team.restarts_in_place("in-place-worker-0", 1, count=3)
    assert team.until("in-place", "Failed")["reason"] == "BackoffLimitExceeded"


INVALID: list[tuple[str, dict[str, Any], str]] = [
    ("policy", {"worker": {"restartPolicy": "Sometimes"}}, "spec.tfReplicaSpecs.Worker.restartPolicy"),
    ("chiefs", {"chief": 1, "master": 1, "worker": 1}, "spec.tfReplicaSpecs"),
    (
        "image",
        {"worker": {"template": template(container={"image": ""})}},
        "spec.tfReplicaSpecs.Worker.template.spec.containers[0].image",
    ),
]


@pytest.mark.parametrize(("name", "replicas", "path"), INVALID)
def test_an_invalid_job_fails_with_its_field_and_gets_no_pods(
    team: Room, name: str, replicas: dict[str, Any], path: str
) -> None:
    """No webhook stands before this API server, as when the operator was down."""
    team.create(job(name, **replicas))
    status = team.until(name, "Failed")
    assert status["reason"] == "InvalidSpec"
    assert path in status["message"]
    assert [(one["type"], one["status"]) for one in status["conditions"]] == [("Created", "True"), ("Failed", "True")]
    assert not team.pods(name)
    assert not team.services(name)


def test_a_pod_that_the_api_server_calls_invalid_ends_the_job(team: Room) -> None:
    """A field that our own checks leave to Kubernetes."""
    team.create(job("refused", worker={"template": template(dnsPolicy="Sometimes")}))
    status = team.until("refused", "Failed")
    assert status["reason"] in ("Invalid", "InvalidSpec")
    assert "dnsPolicy" in status["message"]
    assert team.find(PODS, "refused-worker-0") is None


def seconds(stamp: str) -> float:
    """A time of a status as the clock counts it."""
    return datetime.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC).timestamp()
