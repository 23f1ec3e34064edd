"""Jobs that training-operator v1.9 began: they go on here, and not a pod of theirs is restarted for it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from support.plan.builders import (
    PodBuilder,
    after,
    at,
    created_pods,
    created_services,
    deleted,
    deletes_job,
    job,
    listed,
    news,
    observed,
    pod,
    running,
    see,
    template,
)
from tfjob.api.problems import Problem
from tfjob.api.types import Condition, TFJob, TFJobStatus
from tfjob.controller.kind import Observation
from tfjob.plan.plan import JobPlan, plan, reject

V1_9 = """{
  "conditions": [
    {"type": "Created", "status": "True", "reason": "TFJobCreated", "message": "TFJob mnist is created.",
     "lastUpdateTime": "2026-01-02T03:00:00Z", "lastTransitionTime": "2026-01-02T03:00:00Z"},
    {"type": "Running", "status": "True", "reason": "TFJobRunning", "message": "TFJob default/mnist is running.",
     "lastUpdateTime": "2026-01-02T03:00:09Z", "lastTransitionTime": "2026-01-02T03:00:09Z"}
  ],
  "replicaStatuses": {
    "Chief": {"active": 1, "selector": "training.kubeflow.org/job-name=mnist"}, "Worker": {"active": 2}
  },
  "startTime": "2026-01-02T03:00:01Z"
}"""
"""A status as v1.9 writes it."""


def of_v1_9(owner: TFJob, **changes: Any) -> TFJob:
    """A job with the status of v1.9."""
    return replace(owner, status=replace(msgspec.json.decode(V1_9, type=TFJobStatus), **changes))


def ended(*kinds: str) -> list[Condition]:
    before = msgspec.json.decode(V1_9, type=TFJobStatus).conditions
    return [*before, *(Condition(type=kind, status="True", last_transition_time=at(0)) for kind in kinds)]


def bare(*pods: PodBuilder) -> list[PodBuilder]:
    """Pods as v1.9 makes them: without our annotations."""
    for builder in pods:
        builder.pod = replace(builder.pod, metadata=replace(builder.pod.metadata, annotations={}))
    return list(pods)


def suspended(owner: TFJob, suspend: bool = True) -> TFJob:
    return replace(owner, spec=replace(owner.spec, run_policy=replace(owner.spec.run_policy, suspend=suspend)))


def touches_nothing(outcome: JobPlan) -> bool:
    return not outcome.actions and not outcome.events


# --- running ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape",
    [
        {"chief": 1, "worker": 2},
        {"chief": 1, "worker": 2, "evaluator": 1},
        {"chief": 1, "worker": 2, "ps": 1},
        {"worker": 2, "policy": "OnFailure"},
        {"worker": 1, "policy": "Never"},
    ],
)
def test_a_running_job_is_taken_over_without_touching_a_pod(shape: dict[str, Any]) -> None:
    owner = of_v1_9(job(**shape))
    pods = bare(*running(owner))
    outcome = see(owner, pods, 5)
    assert touches_nothing(outcome)
    assert (outcome.status.state, outcome.status.attempt, outcome.status.restarts) == ("Running", 1, 0)
    assert (listed(outcome), outcome.status.start_time) == (["Created", "Running"], owner.status.start_time)
    again = see(after(owner, outcome), pods, 6)
    assert touches_nothing(again)
    assert again.status == after(owner, outcome).status


def test_what_is_missing_of_a_running_job_is_made_beside_what_runs() -> None:
    owner = of_v1_9(job(chief=1, worker=2))
    outcome = see(owner, bare(*running(owner, "chief-0", "worker-0")), 5, with_services=False)
    assert (created_pods(outcome), deleted(outcome), len(created_services(outcome))) == (["mnist-worker-1"], [], 3)


def test_a_running_job_that_our_rules_would_refuse_goes_on() -> None:
    pods_template = template(image="not a name at all")
    owner = of_v1_9(job(worker=2, pod_template=pods_template))
    outcome = see(owner, bare(*running(owner)), 5)
    assert (outcome.status.state, touches_nothing(outcome)) == ("Running", True)
    assert see(job(worker=2, pod_template=pods_template)).status.reason == "InvalidSpec", "but not as a new one"


def test_a_running_job_that_we_cannot_even_read_is_left_to_itself_and_says_why() -> None:
    owner = of_v1_9(job(worker=2))
    problems = [Problem("spec.tfReplicaSpecs.Worker.replicas", "must be a number")]
    outcome = reject(owner, Observation(), problems, at(0))
    assert (listed(outcome), list(outcome.actions)) == (["Created", "Running"], [])
    assert (outcome.status.reason, outcome.status.message) == ("InvalidSpec", f"{problems[0].path}: must be a number")
    assert [one.reason for one in outcome.events] == ["InvalidSpec"]
    assert reject(after(owner, outcome), Observation(), problems, at(1)).events == [], "once"
    assert see(after(owner, outcome), bare(*running(owner)), 5).status.state == "Running", "once it can be read"


def test_a_job_that_v1_9_was_restarting_goes_on_restarting() -> None:
    restarting = [*ended()[:1], Condition(type="Restarting", status="True", reason="TFJobRestarting")]
    owner = of_v1_9(job(chief=1, worker=2), conditions=restarting)
    outcome = see(owner, bare(*running(owner, "chief-0", "worker-0")), 5)
    assert (created_pods(outcome), deleted(outcome)) == (["mnist-worker-1"], [])


def test_restarts_in_place_before_the_take_over_count_as_they_did() -> None:
    owner = of_v1_9(job(worker=1, policy="OnFailure", run={"backoff_limit": 3}))
    crashed = bare(pod(owner, "worker-0").restarted(1, at=3, times=2))
    outcome = see(owner, crashed, 5)
    assert (outcome.status.state, outcome.status.restarts, touches_nothing(outcome)) == ("Running", 2, True)


def test_what_happens_after_the_take_over_is_decided_as_for_any_other_job() -> None:
    owner = of_v1_9(job(chief=1, worker=2))
    owner = after(owner, see(owner, bare(*running(owner)), 5))
    killed = [*running(owner, "chief-0", "worker-0"), pod(owner, "worker-1").running().exited(137, 9)]
    outcome = see(owner, bare(*killed), 9)
    assert (outcome.status.state, outcome.status.attempt) == ("Restarting", 2)
    assert deleted(outcome) == ["mnist-chief-0", "mnist-worker-0", "mnist-worker-1"]
    done = bare(pod(owner, "chief-0").exited(0, 9), *running(owner, "worker-0", "worker-1"))
    assert see(owner, done, 9).status.state == "Succeeded"


@pytest.mark.parametrize(
    ("edited", "starts_again"),
    [
        ({"chief": 1, "worker": 3}, True),
        ({"chief": 1, "worker": 1}, True),
        ({"chief": 1, "worker": 2, "run": {"backoff_limit": 3}}, False),
        ({"chief": 1, "worker": 2, "evaluator": 1}, False),
        ({"chief": 1, "worker": 3, "restart_scope": "Task"}, False),
    ],
)
def test_a_gang_starts_again_when_its_size_changes_after_the_take_over(
    edited: dict[str, Any], starts_again: bool
) -> None:
    """Its pods do not say for how many they were made, and may have been for another number all along."""
    owner = of_v1_9(job(chief=1, worker=2))
    pods = bare(*running(owner))
    taken_over = after(owner, see(owner, pods, 5))
    spec = job(**edited).spec
    outcome = see(replace(taken_over, spec=spec, metadata=replace(owner.metadata, generation=2)), pods, 9)
    assert (outcome.status.attempt, outcome.status.restarts) == (2 if starts_again else 1, 0)
    assert deleted(outcome) == (["mnist-chief-0", "mnist-worker-0", "mnist-worker-1"] if starts_again else [])


def test_the_deadline_counts_from_where_v1_9_started() -> None:
    owner = of_v1_9(job(worker=1, run={"active_deadline_seconds": 3600}))
    assert see(owner, bare(*running(owner)), 5).again_at == at(3600 - 4 * 60 - 4)


# --- suspended --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("started", [None, at(-100)])
def test_a_suspended_job_stays_suspended_and_runs_when_it_is_resumed(started: Any) -> None:
    held = [ended()[0], Condition(type="Suspended", status="True", reason="TFJobSuspended")]
    faulty = job(worker=2, pod_template=template(image="not a name at all"))
    owner = suspended(of_v1_9(faulty, conditions=held, start_time=started, replica_statuses={}))
    outcome = see(owner, with_services=False)
    assert (outcome.status.state, touches_nothing(outcome)) == ("Suspended", True)
    again = see(after(owner, outcome), second=5, with_services=False)
    assert again.status == after(owner, outcome).status
    resumed = see(suspended(after(owner, outcome), False), [], 9, with_services=False)
    assert (created_pods(resumed), news(resumed)) == (["mnist-worker-0", "mnist-worker-1"], ["TFJobResumed"])
    assert resumed.status.start_time == at(9)


# --- finished ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [["Succeeded"], ["Failed"], ["Succeeded", "Failed"]])
@pytest.mark.parametrize("completed", [None, at(0)])
def test_a_finished_job_is_left_alone_but_for_its_time_to_live(kinds: list[str], completed: Any) -> None:
    spec = job(worker=2, ps=1, run={"ttl_seconds_after_finished": 60})
    owner = of_v1_9(spec, conditions=ended(*kinds), completion_time=completed)
    pods = bare(pod(owner, "worker-0").exited(0), *running(owner, "worker-1", "ps-0"))
    outcome = see(owner, pods, 30)
    assert (outcome.status, touches_nothing(outcome), outcome.again_at) == (owner.status, True, at(60))
    assert deletes_job(see(owner, pods, 60))
    forever = replace(owner, spec=job(worker=2, ps=1).spec)
    assert see(forever, pods, 10**6) == JobPlan(owner.status, [])


# --- new --------------------------------------------------------------------------------------------------------------


def test_a_job_that_v1_9_never_saw_is_a_new_one() -> None:
    outcome = plan(job(worker=1), Observation(), at(0))
    assert (outcome.status.attempt, created_pods(outcome)) == (1, ["mnist-worker-0"])
    assert see(job("No_Name", worker=1)).status.reason == "InvalidSpec"


def test_the_services_of_v1_9_are_ours() -> None:
    owner = of_v1_9(job(worker=2))
    assert plan(owner, observed(owner, bare(*running(owner))), at(1)).actions == []
