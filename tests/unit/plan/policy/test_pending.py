from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from support.plan.builders import at, job, observed, pod, running, status
from tfjob.controller.kind import Rejection
from tfjob.plan.facts.task_state import survey
from tfjob.plan.policy.pending import Wait, waits

GRACE = timedelta(minutes=5)


def found(pods: Any = (), leaving: Any = (), **given: Any) -> list[Wait]:
    owner = job(worker=2, status=status())
    seen = observed(owner, pods, **given)
    views = survey(owner, owner.status, seen, at(9))
    return waits(owner, views, seen, [builder.pod for builder in leaving], GRACE)


OWNER = job(worker=2)


@pytest.mark.parametrize(
    ("reason", "fails_at"),
    [
        ("InvalidImageName", at(0)),
        ("ErrImagePull", at(300)),
        ("ImagePullBackOff", at(300)),
        ("CreateContainerConfigError", at(300)),
        ("CrashLoopBackOff", None),
    ],
)
def test_when_a_waiting_container_becomes_a_failure(reason: str, fails_at: datetime | None) -> None:
    (wait,) = found([pod(OWNER, "worker-0").waiting(reason, "because")])
    assert wait == Wait("worker-0", reason, "because", fails_at)


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing", ""])
def test_ordinary_starting_is_no_reason(reason: str) -> None:
    assert found([pod(OWNER, "worker-0").waiting(reason)]) == []


def test_the_grace_begins_when_a_node_has_taken_the_pod() -> None:
    queued = pod(OWNER, "worker-0").waiting("ErrImagePull")._status(start_time=at(3600))
    assert found([queued])[0].fails_at == at(3900)


def test_the_grace_of_a_container_that_ran_begins_at_its_end() -> None:
    again = pod(OWNER, "worker-0").restarted(at=7200).waiting("ErrImagePull")
    assert found([again])[0].fails_at == at(7500)


def test_an_unschedulable_pod_waits_for_ever() -> None:
    assert found([pod(OWNER, "worker-0").unschedulable("no room")]) == [
        Wait("worker-0", "Unschedulable", "no room", None)
    ]


def test_a_refused_child_is_named_by_its_task() -> None:
    rejections = {
        ("Pod", "mnist-worker-1"): Rejection("Denied", "by a policy", at(2)),
        ("Service", "mnist-worker-0"): Rejection("NameTaken", "taken", at(2)),
        ("Pod", "mnist-worker-7"): Rejection("Denied", "scaled down since", at(2)),
    }
    assert found(rejections=rejections) == [
        Wait("worker-1", "Denied", "by a policy", at(302)),
        Wait("worker-0", "NameTaken", "taken", None),
    ]


def test_what_is_in_the_way_of_a_pod_comes_before_what_another_pod_waits_for() -> None:
    """A taken name needs somebody's hand; a scheduler comes by itself."""
    rejections = {("Pod", "mnist-worker-1"): Rejection("NameTaken", "taken", at(2))}
    pods = [pod(OWNER, "worker-0").unschedulable("no room")]
    assert [wait.reason for wait in found(pods, rejections=rejections)] == ["NameTaken", "Unschedulable"]


def test_the_most_final_reason_comes_first() -> None:
    pods = [pod(OWNER, "worker-0").waiting("ErrImagePull"), pod(OWNER, "worker-1").waiting("InvalidImageName")]
    assert [wait.reason for wait in found(pods)] == ["InvalidImageName", "ErrImagePull"]


def test_a_pod_that_cannot_leave_its_silent_node_is_named_with_the_node() -> None:
    stuck = pod(OWNER, "worker-0").running().on("node-7").deleting()
    (wait,) = found(leaving=[stuck], lost_nodes=["node-7"])
    assert (wait.task, wait.reason, "node-7" in wait.message) == ("worker-0", "NodeUnreachable", True)


def test_running_pods_wait_for_nothing() -> None:
    assert found(running(OWNER)) == []
