"""Whole passes: what is written, done and said, and when the next one is due."""

from __future__ import annotations

import cProfile
import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from support.golden import Wording
from support.plan.builders import (
    PodBuilder,
    after,
    at,
    begun,
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
    status,
    template,
)
from tfjob.api.types import BackOff, ReplicaStatus, TFJob
from tfjob.controller.kind import SUSPEND_REASON
from tfjob.plan.facts.conditions import is_finished
from tfjob.plan.plan import JobPlan, plan
from tfjob.plan.replicas import PODS_A_PASS


def suspended(owner: TFJob, suspend: bool = True) -> TFJob:
    return replace(owner, spec=replace(owner.spec, run_policy=replace(owner.spec.run_policy, suspend=suspend)))


def quiet(owner: TFJob, outcome: JobPlan, pods: list[PodBuilder], second: float, **given: Any) -> bool:
    """Whether a second look at the same things changes and does nothing."""
    again = see(after(owner, outcome), pods, second, **given)
    return again.status == after(owner, outcome).status and not again.actions and not again.events


# --- beginning --------------------------------------------------------------------------------------------------------


def test_a_new_job_is_created_then_pending_then_running() -> None:
    owner = job(worker=2)
    first = see(owner, with_services=False)
    assert (listed(first), first.status.state, first.status.ready) == (["Created"], "Pending", "0/2")
    owner = after(owner, first)
    second = see(owner, running(owner), 3)
    assert (listed(second), second.status.state, second.status.ready) == (["Created", "Running"], "Running", "2/2")
    assert second.status.start_time == at(0)
    assert quiet(owner, second, running(owner), 4)


def test_a_job_of_another_manager_is_left_alone() -> None:
    owner = job(worker=1, run={"managed_by": "kueue.x-k8s.io/multikueue"})
    assert see(owner) == JobPlan(owner.status)
    ours = job(worker=1, run={"managed_by": "kubeflow.org/training-operator"})
    assert created_pods(see(ours)) == ["mnist-worker-0"]


def test_a_job_that_is_being_deleted_is_left_to_the_cluster() -> None:
    owner = job(worker=1)
    owner = replace(owner, metadata=replace(owner.metadata, deletion_timestamp=at(0)))
    assert see(owner) == JobPlan(owner.status)


def test_an_invalid_spec_fails_at_once_with_its_path() -> None:
    outcome = see(job("No_Name", worker=1))
    assert (outcome.status.state, outcome.status.reason) == ("Failed", "InvalidSpec")
    assert "metadata.name" in outcome.status.message
    assert outcome.status.completion_time == at(0)
    assert created_pods(outcome) == []


def test_a_policy_in_the_template_that_is_overruled_is_said_once() -> None:
    own = template()
    own["spec"]["restartPolicy"] = "Always"
    owner = job(worker=1, pod_template=own)
    first = see(owner)
    assert news(first) == ["SetPodTemplateRestartPolicy"]
    assert news(see(after(owner, first), running(owner), 1)) == []
    assert news(see(job(worker=1, pod_template=own, policy=None))) == [], "nothing is overruled"


# --- suspend and resume -----------------------------------------------------------------------------------------------


def test_a_job_that_is_created_suspended_makes_nothing_and_has_no_start_time() -> None:
    owner = suspended(job(worker=2))
    outcome = see(owner, with_services=False)
    assert (outcome.actions, outcome.status.start_time, listed(outcome)) == ([], None, ["Created", "Suspended"])
    assert (outcome.status.state, outcome.status.attempt, outcome.status.ready) == ("Suspended", 0, "0/2")
    assert quiet(owner, outcome, [], 1, with_services=False)
    resumed = see(suspended(after(owner, outcome), False), [], 5, with_services=False)
    assert created_pods(resumed) == ["mnist-worker-0", "mnist-worker-1"]
    assert (resumed.status.attempt, resumed.status.start_time) == (1, at(5))


def test_suspending_removes_all_children_and_keeps_the_record() -> None:
    owner = suspended(begun(job(worker=2, success_policy="AllWorkers", run={"clean_pod_policy": "None"})))
    pods = [*running(owner, "worker-0"), pod(owner, "worker-1").exited(0, 5)]
    outcome = see(owner, pods, 9)
    assert sorted(deleted(outcome)) == ["mnist-worker-0", "mnist-worker-1"]
    assert len(deleted(outcome, "Service")) == 2
    assert listed(outcome) == ["Created", "-Running", "Suspended"]
    assert outcome.status.conditions[1].reason == "TFJobSuspended"
    assert outcome.status.replica_statuses["Worker"].active == 0
    assert outcome.status.start_time == at(0), "as in v1.9, until it is resumed"
    assert news(outcome) == ["TFJobSuspended"]
    assert quiet(owner, outcome, [], 10, with_services=False)


def test_a_command_that_suspends_may_say_why() -> None:
    owner = suspended(begun(job(worker=1)))
    assert see(owner).status.reason == "Suspended"
    stopped = replace(owner, metadata=replace(owner.metadata, annotations={SUSPEND_REASON: "Stopped"}))
    assert see(stopped).status.reason == "Stopped"


def test_a_job_that_is_done_when_it_is_suspended_has_succeeded() -> None:
    owner = suspended(begun(job(worker=1)))
    assert see(owner, [pod(owner, "worker-0").exited(0, 5)], 6).status.state == "Succeeded"


def test_suspending_a_finished_job_has_no_effect() -> None:
    owner = begun(job(worker=1))
    outcome = see(owner, [pod(owner, "worker-0").exited(0, 5)], 6)
    ended = suspended(after(owner, outcome))
    assert see(ended, [], 7).status == ended.status


def test_the_deadline_of_a_resumed_job_counts_anew() -> None:
    owner = begun(job(worker=1, run={"active_deadline_seconds": 60}))
    stopped = after(owner, see(suspended(owner), running(owner), 50))
    assert see(suspended(stopped), [], 1000).status.state == "Suspended"
    resumed = see(suspended(stopped, False), [], 1000)
    assert (resumed.status.state, resumed.again_at) == ("Pending", at(1060))


# --- the end ----------------------------------------------------------------------------------------------------------


def test_what_still_runs_at_success_counts_as_succeeded() -> None:
    owner = begun(job(chief=1, worker=2))
    outcome = see(owner, [pod(owner, "chief-0").exited(0, 5), *running(owner, "worker-0", "worker-1")], 6)
    assert outcome.status.replica_statuses["Worker"] == ReplicaStatus(succeeded=2)
    assert (listed(outcome), news(outcome)) == (["Created", "-Running", "Succeeded"], ["TFJobSucceeded"])
    assert deleted(outcome) == ["mnist-worker-0", "mnist-worker-1"]


def test_an_end_is_final_whatever_the_cluster_shows_afterwards() -> None:
    owner = begun(job(worker=2))
    won = after(owner, see(owner, [pod(owner, "worker-0").exited(0, 5), *running(owner, "worker-1")], 6))
    assert see(won, [pod(owner, "worker-1").exited(1, 7)], 8).status == won.status
    lost = after(owner, see(owner, [pod(owner, "worker-0").exited(1, 5), pod(owner, "worker-1").exited(1, 5)], 6))
    assert is_finished(lost.status)
    assert see(lost, [pod(owner, "worker-0").exited(0, 7)], 8).status == lost.status


def test_what_stands_after_the_end_is_cleaned_up_by_any_later_pass() -> None:
    owner = begun(job(worker=2))
    won = after(owner, see(owner, [pod(owner, "worker-0").exited(0, 5), *running(owner, "worker-1")], 6))
    late = see(won, [pod(owner, "worker-0").exited(0, 5), *running(owner, "worker-1")], 9)
    assert deleted(late) == ["mnist-worker-1"]


def test_the_message_of_a_failure_is_bounded_in_the_event(wording: Wording) -> None:
    owner = begun(job(worker=1))
    outcome = see(owner, [pod(owner, "worker-0").exited(1, 5, message="é" * 4000)], 6)
    (event,) = outcome.events
    assert event.warning
    assert len(event.message.encode()) <= 1024
    assert "éé" in event.message
    wording(event.message)


def test_more_restarts_in_place_than_the_limit_fail_the_job_and_name_the_replica(wording: Wording) -> None:
    owner = begun(job(worker=1, policy="OnFailure", run={"backoff_limit": 2}))
    crashing = pod(owner, "worker-0", attempt=1)
    assert see(owner, [crashing.restarted(1, at=5, times=2)], 6).status.state == "Running"
    outcome = see(owner, [crashing.restarted(1, at=7)], 8)
    assert (outcome.status.state, outcome.status.reason) == ("Failed", "BackoffLimitExceeded")
    assert "backoffLimit 2" in outcome.status.message
    wording(outcome.status.message)
    assert outcome.status.failure is not None
    assert outcome.status.failure.exit_code == 1


def test_a_deadline_ends_a_job_that_is_settling() -> None:
    owner = begun(job(worker=2, run={"active_deadline_seconds": 12}))
    pods = [pod(owner, "worker-0").exited(1, 5), *running(owner, "worker-1")]
    settling = see(owner, pods, 6)
    assert (settling.status.reason, settling.again_at) == ("Settling", at(12))
    assert see(after(owner, settling), pods, 12).status.reason == "DeadlineExceeded"


# --- settling ---------------------------------------------------------------------------------------------------------


def test_settling_touches_nothing_and_leaves_the_conditions_alone() -> None:
    owner = begun(job(worker=2))
    pods = [pod(owner, "worker-0").exited(1, 5), *running(owner, "worker-1")]
    outcome = see(owner, pods, 6)
    assert (list(outcome.actions), outcome.again_at) == ([], at(21))
    assert (outcome.status.state, outcome.status.reason) == ("Restarting", "Settling")
    assert listed(outcome) == ["Created", "Running"]
    assert quiet(owner, outcome, pods, 7)
    ended = see(after(owner, outcome), pods, 21)
    assert listed(ended) == ["Created", "-Running", "Failed"], "as v1.9 lists an ordinary failure"


# --- size and speed ---------------------------------------------------------------------------------------------------


def worst() -> TFJob:
    """A thousand replicas of the longest name, each held back after many restarts, half of them done, long lines."""
    names = [f"evaluator-{index}" for index in range(999)]
    noisy = "\n".join('"\\' * 100 for _ in range(50))
    owner = job(
        chief=1,
        evaluator=999,
        status=status(
            attempt=99,
            started={"Chief": "0", "Evaluator": ",".join(str(index) for index in range(0, 999, 2))},
            completed_indexes={"Evaluator": ",".join(str(index) for index in range(1, 999, 2))},
            task_restarts=dict.fromkeys(names, 1234),
            oom_killed=names[:64],
            back_off={name: BackOff(restarts=99999, not_before=at(6.1)) for name in names},
            restarts=99999,
            retries=99999,
        ),
    )
    ended = [pod(owner, "chief-0", attempt=1100).running().exited(137, 5, message=noisy)]
    return after(owner, see(owner, [*ended, *running(owner, *names[0::2])], 6))


def test_a_status_with_a_thousand_replicas_has_at_most_112_kib() -> None:
    owner = worst()
    assert owner.status.state == "Restarting"
    assert owner.status.last_restart is not None
    assert owner.status.last_restart.cause.last_lines
    assert len(msgspec.json.encode(owner.status)) <= 112 * 1024
    noisy = "\n".join('"\\' * 100 for _ in range(50))
    chief = pod(owner, "chief-0").running().exited(1, 8, message=noisy)
    pods = [chief, *running(owner, *[f"evaluator-{index}" for index in range(0, 999, 2)])]
    failed = see(after(owner, see(owner, pods, 500)), pods, 900)
    assert failed.status.state == "Failed"
    assert len(msgspec.json.encode(failed.status)) <= 32 * 1024


@pytest.mark.parametrize("moment", ["first pass", "steady", "all lost", "all failed"])
def test_the_work_of_a_pass_grows_with_the_number_of_replicas_and_not_with_its_square(moment: str) -> None:
    def calls(count: int) -> int:
        owner = job(chief=1, worker=count, status=status(started={"Chief": "0", "Worker": f"0-{count - 1}"}))
        pods = running(owner)
        if moment == "first pass":
            owner, pods = job(chief=1, worker=count), []
        elif moment == "all lost":
            pods = []
        elif moment == "all failed":
            pods = [builder.exited(1, 5) for builder in pods]
        seen = observed(owner, pods, with_services=moment != "first pass")
        profile = cProfile.Profile()
        profile.enable()
        plan(owner, seen, at(60))
        profile.disable()
        return sum(entry.callcount for entry in profile.getstats())

    assert calls(400) < 2.3 * calls(200)


def test_a_thousand_pods_share_one_rendering_of_the_cluster_and_come_in_portions() -> None:
    """Each holds all of TF_CONFIG, so all of them at once would cost their number squared."""
    outcome = see(job(chief=1, worker=999), with_services=False)
    assert (len(created_pods(outcome)), len(created_services(outcome))) == (PODS_A_PASS, 1000)
    last = outcome.actions[PODS_A_PASS - 1]
    config = json.loads(last.child.spec["containers"][0]["env"][0]["value"])  # type: ignore[union-attr]
    assert (len(config["cluster"]["worker"]), config["task"]) == (999, {"type": "worker", "index": PODS_A_PASS - 2})


def test_a_finished_job_is_removed_when_its_time_is_over_and_not_while_suspended() -> None:
    owner = begun(job(worker=1, run={"ttl_seconds_after_finished": 30}))
    done = [pod(owner, "worker-0").exited(0, 5)]
    outcome = see(owner, done, 6)
    assert outcome.again_at == at(36)
    ended = after(owner, outcome)
    assert not deletes_job(see(ended, done, 35))
    assert see(ended, done, 35).again_at == at(36)
    assert deletes_job(see(ended, done, 36))
    assert not deletes_job(see(suspended(ended), done, 36))


def test_what_is_null_in_a_stored_template_is_left_out() -> None:
    """An API server may keep nulls where its schema says nothing."""
    owner = job(worker=1, pod_template=template(volumeMounts=None, env=None, ports=None, resources={"limits": None}))
    outcome = plan(owner, observed(owner, with_services=False), at(0))
    assert (outcome.status.state, created_pods(outcome)) == ("Pending", ["mnist-worker-0"])
