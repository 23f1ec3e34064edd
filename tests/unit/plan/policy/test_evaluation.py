from __future__ import annotations

from typing import Any

import pytest

from support.golden import Wording
from support.plan.builders import PodBuilder, after, at, begun, deleted, job, listed, news, pod, running, see
from tfjob.api.types import EVALUATOR_GRACE, TFJob
from tfjob.plan.plan import JobPlan

SHAPE: dict[str, Any] = {"chief": 1, "ps": 1, "evaluator": 1}


def trained(owner: TFJob, *others: str) -> list[PodBuilder]:
    """The chief has exited 0; the other replicas run."""
    return [pod(owner, "chief-0").exited(0, at=5), *running(owner, *(others or ("ps-0", "evaluator-0")))]


def waiting(**given: Any) -> tuple[TFJob, JobPlan]:
    owner = begun(job(**SHAPE, **given))
    outcome = see(owner, trained(owner), 6)
    return after(owner, outcome), outcome


def test_a_job_waits_for_its_evaluator_and_stops_the_others(wording: Wording) -> None:
    owner, outcome = waiting()
    assert (outcome.status.state, outcome.status.reason) == ("Running", "WaitingForEvaluator")
    assert deleted(outcome) == ["mnist-ps-0"]
    assert (news(outcome), outcome.again_at) == (["WaitingForEvaluator"], at(126))
    again = see(owner, [pod(owner, "chief-0").exited(0, at=5), *running(owner, "evaluator-0")], 60)
    assert (again.status, again.events, deleted(again), again.again_at) == (owner.status, [], [], at(126))
    wording(outcome.status.message)


@pytest.mark.parametrize(
    ("second", "evaluator"),
    [
        (30, lambda builder: builder.exited(0, at=29)),
        (30, lambda builder: builder.exited(1, at=29)),
        (126, lambda builder: builder),
    ],
    ids=["finished", "failed", "too slow"],
)
def test_what_ends_the_wait_is_in_the_status(second: float, evaluator: Any, wording: Wording) -> None:
    owner, _ = waiting()
    pods = [pod(owner, "chief-0").exited(0, at=5), evaluator(running(owner, "evaluator-0")[0])]
    outcome = see(owner, pods, second)
    assert (outcome.status.state, listed(outcome)) == ("Succeeded", ["Created", "-Running", "Succeeded"])
    assert outcome.status.replica_statuses["PS"].succeeded == 1, "v1.9 counts it, and it ran until the success"
    assert deleted(outcome) == (["mnist-evaluator-0"] if second == 126 else [])
    wording(outcome.status.message)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({}, 120),
        ({"run": {"evaluator_grace_seconds": 5}}, 5),
        ({"annotations": {EVALUATOR_GRACE: "7"}, "origin": "kubeflow.org/v1beta2"}, 7),
        ({"run": {"evaluator_grace_seconds": 0}}, None),
        ({"run": {"clean_pod_policy": "All"}}, None),
        ({"run": {"clean_pod_policy": "None"}}, None),
    ],
)
def test_how_long_a_job_waits(given: dict[str, Any], seconds: int | None) -> None:
    _, outcome = waiting(**given)
    assert outcome.status.state == ("Succeeded" if seconds is None else "Running")
    assert outcome.again_at == (None if seconds is None else at(6 + seconds))


def test_a_job_does_not_wait_for_an_evaluator_that_does_not_run() -> None:
    owner = begun(job(**SHAPE))
    crashing = pod(owner, "evaluator-0").backing_off(1, at=4)
    for evaluator in (pod(owner, "evaluator-0"), crashing):
        assert see(owner, [*trained(owner, "ps-0"), evaluator], 6).status.state == "Succeeded"


def test_a_job_that_is_suspended_while_it_waits_has_succeeded() -> None:
    owner, _ = waiting()
    stopped = job(**SHAPE, run={"suspend": True}, status=owner.status)
    outcome = see(stopped, [pod(owner, "chief-0").exited(0, at=5), *running(owner, "evaluator-0")], 10)
    assert (outcome.status.state, deleted(outcome)) == ("Succeeded", ["mnist-evaluator-0"])
