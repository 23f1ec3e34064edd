"""The twelve points in which this project decides for itself; docs/compatibility.md has a row for each."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from support.golden import Wording
from support.plan.builders import (
    PodBuilder,
    after,
    at,
    begun,
    created_pods,
    deleted,
    deletes_job,
    job,
    listed,
    news,
    observed,
    pod,
    running,
    see,
    task,
    template,
    tf_config,
)
from tfjob.api.types import TFJob
from tfjob.controller.kind import Rejection
from tfjob.plan.plan import plan
from tfjob.plan.policy.restarts import RETRY_TABLE


def killed(owner: TFJob, name: str, second: float, code: int = 137) -> PodBuilder:
    return pod(owner, name).running().exited(code, at=second)


# --- 1 ---


def test_point_01_success_is_terminal_at_once_and_names_its_rule(wording: Wording) -> None:
    owner = begun(job(chief=1, worker=2))
    outcome = see(owner, [killed(owner, "chief-0", 5, code=0), *running(owner, "worker-0", "worker-1")], 5)
    assert (outcome.status.state, "chief-0" in outcome.status.message) == ("Succeeded", True)
    wording(outcome.status.message)


def test_point_01_the_success_rule_comes_before_any_restart_rule_and_the_ends_exclude_each_other() -> None:
    owner = begun(job(chief=1, worker=2, run={"backoff_limit": 0, "active_deadline_seconds": 5}))
    pods = [killed(owner, "chief-0", 5, 0), killed(owner, "worker-0", 4), killed(owner, "worker-1", 4, 1)]
    outcome = see(owner, pods, 60)
    assert listed(outcome) == ["Created", "-Running", "Succeeded"]
    assert outcome.status.failure is None


# --- 2 ---


def test_point_02_a_parameter_server_does_not_hold_its_machine_after_success() -> None:
    owner = begun(job(worker=1, ps=1))
    outcome = see(owner, [killed(owner, "worker-0", 5, 0), *running(owner, "ps-0")], 6)
    assert deleted(outcome) == ["mnist-ps-0"]


@pytest.mark.parametrize(
    ("policy", "gone"),
    [("None", []), ("All", ["ps-0", "worker-0", "worker-1"]), ("Running", ["ps-0", "worker-1"])],
)
def test_point_02_the_policy_also_holds_when_a_limit_ended_the_job(policy: str, gone: list[str]) -> None:
    owner = begun(
        job(
            worker=2,
            ps=1,
            success_policy="AllWorkers",
            run={"clean_pod_policy": policy, "active_deadline_seconds": 60},
        )
    )
    pods = [killed(owner, "worker-0", 5, 0), *running(owner, "worker-1", "ps-0")]
    outcome = see(owner, pods, 60)
    assert outcome.status.reason == "DeadlineExceeded"
    assert sorted(name.removeprefix("mnist-") for name in deleted(outcome)) == gone


# --- 3 ---


def test_point_03_restart_by_root_cause_a_killed_worker_and_the_chief_that_dies_of_it_are_one_restart() -> None:
    owner = begun(job(chief=1, worker=1, run={"backoff_limit": 1}))
    chief_first = see(owner, [killed(owner, "chief-0", 10, code=1), *running(owner, "worker-0")], 11)
    assert (chief_first.status.state, chief_first.status.reason) == ("Restarting", "Settling")
    owner = after(owner, chief_first)
    outcome = see(owner, [killed(owner, "chief-0", 10, code=1), killed(owner, "worker-0", 9)], 12)
    assert sorted(deleted(outcome)) == ["mnist-chief-0", "mnist-worker-0"]
    last = outcome.status.last_restart
    assert last is not None
    assert (last.cause.replica, last.cause.exit_code, outcome.status.retries) == ("worker-0", 137, 1)


def test_point_03_restart_by_root_cause_without_a_cause_the_exit_is_final_after_the_settling_time() -> None:
    owner = begun(job(chief=1, worker=1))
    pods = [killed(owner, "chief-0", 10, code=1), *running(owner, "worker-0")]
    owner = after(owner, see(owner, pods, 10))
    assert see(owner, pods, 24.9).status.state == "Restarting"
    assert see(owner, pods, 25).status.state == "Failed"


def test_point_03_with_parameter_servers_only_the_lost_task_restarts_unless_the_scope_says_otherwise() -> None:
    shape: dict[str, Any] = {"chief": 1, "worker": 2, "ps": 1}
    owner = begun(job(**shape))
    others = ("chief-0", "worker-0", "ps-0")
    assert deleted(see(owner, [killed(owner, "worker-1", 5), *running(owner, *others)], 6)) == ["mnist-worker-1"]
    owner = begun(job(**shape, restart_scope="Gang"))
    assert len(deleted(see(owner, [killed(owner, "worker-1", 5), *running(owner, *others)], 6))) == 4
    owner = begun(job(chief=1, worker=1, restart_scope="Task"))
    assert deleted(see(owner, [killed(owner, "worker-0", 5), *running(owner, "chief-0")], 6)) == ["mnist-worker-0"]


def test_point_03_a_gang_restart_runs_every_member_again_also_those_that_exited_0() -> None:
    owner = begun(job(worker=3, success_policy="AllWorkers"))
    done = killed(owner, "worker-1", 5, 0)
    owner = after(owner, see(owner, [done, *running(owner, "worker-0", "worker-2")], 6))
    assert owner.status.completed_indexes == {"Worker": "1"}
    owner = after(owner, see(owner, [done, killed(owner, "worker-2", 8), *running(owner, "worker-0")], 9))
    assert created_pods(see(owner, [], 10)) == ["mnist-worker-0", "mnist-worker-1", "mnist-worker-2"]


def test_point_03_an_evaluator_is_no_member_of_the_gang() -> None:
    owner = begun(job(chief=1, worker=1, evaluator=1))
    outcome = see(owner, [killed(owner, "worker-0", 5), *running(owner, "chief-0", "evaluator-0")], 6)
    assert sorted(deleted(outcome)) == ["mnist-chief-0", "mnist-worker-0"]
    owner = after(owner, outcome)
    assert created_pods(see(owner, running(owner, "evaluator-0"), 7)) == ["mnist-chief-0", "mnist-worker-0"]


@pytest.mark.parametrize("policy", ["Never", "ExitCode", "OnFailure", "Always"])
def test_point_03_a_lost_pod_is_replaced_under_every_policy(policy: str) -> None:
    owner = begun(job(worker=1, ps=1, policy=policy))
    outcome = see(owner, running(owner, "ps-0"), 6)
    assert (outcome.status.state, created_pods(outcome)) == ("Restarting", ["mnist-worker-0"])


def test_point_03_a_templates_own_policy_counts_when_the_replica_sets_none() -> None:
    own = template()
    own["spec"]["restartPolicy"] = "OnFailure"
    owner = begun(job(worker=1, policy=None, pod_template=own))
    crashed = pod(owner, "worker-0").running().exited(1, 5, phase="Running")
    assert see(owner, [crashed], 6).status.state == "Restarting"


# --- 4 ---


def test_point_04_backoff_limit_counts_incidents_across_pods() -> None:
    owner = begun(job(chief=1, worker=1, run={"backoff_limit": 2}))
    for incident in (1, 2):
        second = 1000 * incident
        pods = [killed(owner, "chief-0", second + 3, 1), killed(owner, "worker-0", second)]
        owner = after(owner, see(owner, pods, second + 4))
        assert (owner.status.state, owner.status.retries) == ("Restarting", incident)
        owner = after(owner, see(owner, running(owner), second + 5))
    lost = after(owner, see(owner, running(owner, "chief-0"), 3000))
    assert (lost.status.state, lost.status.retries) == ("Restarting", 2), "a loss does not count"
    lost = after(lost, see(lost, running(lost), 3010))
    outcome = see(lost, [killed(lost, "worker-0", 4000), *running(lost, "chief-0")], 4001)
    assert (outcome.status.state, outcome.status.reason) == ("Failed", "BackoffLimitExceeded")


def test_point_04_without_a_limit_there_is_none() -> None:
    owner = begun(job(worker=1))
    for count in range(1, 30):
        owner = after(owner, see(owner, [killed(owner, "worker-0", 1000 * count)], 1000 * count))
        assert owner.status.restarts == count
        owner = after(owner, see(owner, running(owner), 1000 * count + 900))


def test_point_04_restarts_wait_and_the_wait_is_in_the_status() -> None:
    owner = begun(job(worker=1))
    owner = after(owner, see(owner, [killed(owner, "worker-0", 5)], 5))
    assert created_pods(see(owner, [], 5)) == ["mnist-worker-0"], "the first does not wait"
    owner = after(owner, see(owner, running(owner), 6))
    outcome = see(owner, [killed(owner, "worker-0", 7)], 7)
    assert outcome.again_at == at(17)
    owner = after(owner, outcome)
    assert owner.status.last_restart is not None
    assert owner.status.last_restart.not_before == at(17)
    assert created_pods(see(owner, [], 16)) == []
    assert created_pods(see(owner, [], 17)) == ["mnist-worker-0"]


def test_point_04_a_second_oom_kill_in_a_row_ends_the_job_with_peak_and_limit(wording: Wording) -> None:
    owner = begun(job(worker=1, pod_template=template(resources={"limits": {"memory": "1Gi"}})))
    owner = after(owner, see(owner, [pod(owner, "worker-0").running().oom(5)], 5))
    assert owner.status.state == "Restarting"
    owner = after(owner, see(owner, running(owner), 6))
    peak = pod(owner, "worker-0").running(6).oom(9).annotated(tfjob__peak_memory=str(1000 * 2**20))
    outcome = see(owner, [peak], 10)
    assert (outcome.status.state, outcome.status.reason) == ("Failed", "OOMKilled")
    assert "1000 MiB" in outcome.status.message
    wording(outcome.status.message)


# --- 5 ---


def test_point_05_one_retry_table_says_what_is_decided() -> None:
    """test_restarts.py drives the decision through every row; here: every kind of end has a row."""
    assert len({row.cause for row in RETRY_TABLE}) == len(RETRY_TABLE) >= 7
    assert all(row.never and row.exit_code and row.in_place and row.counts in ("yes", "no") for row in RETRY_TABLE)


# --- 6 ---


def test_point_06_a_deadline_fires_on_time() -> None:
    owner = begun(job(worker=1, run={"active_deadline_seconds": 60}))
    assert see(owner, running(owner), 10).again_at == at(60)
    assert see(owner, running(owner), 59).status.state == "Running"
    outcome = see(owner, running(owner), 60)
    assert (outcome.status.state, outcome.status.reason) == ("Failed", "DeadlineExceeded")
    assert deleted(outcome) == ["mnist-worker-0"]


@pytest.mark.parametrize("seconds", [0, 30])
def test_point_06_the_time_to_live_fires_on_time_also_when_it_is_0(seconds: int) -> None:
    owner = begun(job(worker=1, run={"ttl_seconds_after_finished": seconds}))
    outcome = see(owner, [killed(owner, "worker-0", 5, 0)], 6)
    assert outcome.again_at == at(6 + seconds)
    assert deletes_job(see(after(owner, outcome), [], 6 + seconds))


# --- 7 ---


def test_point_07_a_pod_that_is_being_deleted_is_not_a_failed_pod() -> None:
    owner = begun(job(worker=2, ps=1, policy="Never"))
    leaving = pod(owner, "worker-0").running().deleting()
    outcome = see(owner, [leaving, *running(owner, "worker-1", "ps-0")], 6)
    assert (outcome.status.state, outcome.status.replica_statuses["Worker"].failed) == ("Restarting", 0)


def test_point_07_a_finished_replica_is_not_run_again_whoever_deletes_its_pod() -> None:
    owner = begun(job(worker=2, success_policy="AllWorkers"))
    owner = after(owner, see(owner, [killed(owner, "worker-0", 5, 0), *running(owner, "worker-1")], 6))
    for pods in ([], [killed(owner, "worker-0", 5, 0).deleting()]):
        outcome = see(owner, [*pods, *running(owner, "worker-1")], 7)
        assert (outcome.actions, outcome.status.state) == ([], "Running")
    assert see(owner, [killed(owner, "worker-1", 8, 0)], 9).status.state == "Succeeded"


# --- 8 ---


def test_point_08_an_invalid_image_name_and_a_refused_pod_fail_at_once(wording: Wording) -> None:
    owner = begun(job(worker=1), [])
    outcome = see(owner, [pod(owner, "worker-0").waiting("InvalidImageName", "couldn't parse")], 1)
    assert (outcome.status.state, outcome.status.reason) == ("Failed", "InvalidImageName")
    refused = {("Pod", "mnist-worker-0"): Rejection("Invalid", "spec.x: unknown", at(1))}
    outcome = see(owner, [], 1, rejections=refused)
    assert (outcome.status.state, outcome.status.reason) == ("Failed", "Invalid")
    assert "spec.x" in outcome.status.message
    wording(outcome.status.message)


@pytest.mark.parametrize("reason", ["Unschedulable", "QuotaExceeded", "NameTaken"])
def test_point_08_quota_and_the_like_wait_with_their_reason(reason: str) -> None:
    owner = begun(job(worker=1), [])
    refused = {("Pod", "mnist-worker-0"): Rejection(reason, "no room", at(1))}
    outcome = see(owner, [], 100_000, rejections=refused)
    assert (outcome.status.state, outcome.status.reason) == ("Pending", reason)
    assert created_pods(outcome) == ["mnist-worker-0"], "it is tried again"


@pytest.mark.parametrize("reason", ["ErrImagePull", "CreateContainerConfigError"])
def test_point_08_what_somebody_may_still_create_fails_after_a_grace(reason: str) -> None:
    owner = begun(job(worker=1), [])
    pods = [pod(owner, "worker-0").waiting(reason, "not found")]
    waiting = see(owner, pods, 299)
    assert (waiting.status.state, waiting.status.reason, waiting.again_at) == ("Pending", reason, at(300))
    assert see(owner, pods, 300).status.state == "Failed"
    denied = {("Pod", "mnist-worker-0"): Rejection("Denied", "by policy", at(0))}
    assert see(owner, [], 299, rejections=denied).status.state == "Pending"
    assert see(owner, [], 300, rejections=denied).status.reason == "Denied"


# --- 9 ---


def test_point_09_the_verdict_names_the_first_failing_replica_and_its_last_lines(wording: Wording) -> None:
    owner = begun(job(worker=2))
    words = "Traceback (most recent call last):\n  File train.py\n\x1b[31mValueError: no such column\x1b[0m\n"
    pods = [
        pod(owner, "worker-0").running().exited(1, at=9, message="peer died"),
        pod(owner, "worker-1").running().exited(3, at=7, message=words),
    ]
    outcome = see(owner, pods, 10)
    failure = outcome.status.failure
    assert failure is not None
    assert (failure.replica, failure.attempt, failure.exit_code, failure.reason) == ("worker-1", 1, 3, "Error")
    assert failure.last_lines == ["Traceback (most recent call last):", "  File train.py", "ValueError: no such column"]
    (event,) = outcome.events
    assert event.message.endswith("ValueError: no such column")
    wording(event.message)


def test_point_09_a_restart_keeps_the_verdict_of_its_cause() -> None:
    owner = begun(job(worker=1))
    outcome = see(owner, [pod(owner, "worker-0").running().exited(139, at=5, message="segfault")], 6)
    last = outcome.status.last_restart
    assert last is not None
    assert (last.cause.signal, last.cause.last_lines, news(outcome)) == (
        "SIGSEGV",
        ["segfault"],
        ["ExitedWithCode", "TFJobRestarting"],
    )


# --- 10 ---


def test_point_10_replicas_0_means_none() -> None:
    outcome = see(job(worker=1, ps=0))
    assert (created_pods(outcome), outcome.status.ready) == (["mnist-worker-0"], "0/1")


def test_point_10_a_pod_that_cannot_leave_an_unreachable_node_is_waited_for_by_name() -> None:
    owner = begun(job(worker=1))
    stuck = pod(owner, "worker-0").running().on("node-7").deleting()
    owner = after(owner, see(owner, [stuck], 6))
    outcome = see(owner, [stuck], 7, lost_nodes=["node-7"])
    assert (outcome.status.reason, "node-7" in outcome.status.message) == ("NodeUnreachable", True)
    assert outcome.actions == []


def test_point_10_a_name_that_is_taken_is_waited_for() -> None:
    owner = begun(job(worker=1), [])
    taken = {("Pod", "mnist-worker-0"): Rejection("NameTaken", "pod mnist-worker-0 exists", at(1))}
    outcome = see(owner, [], 5, rejections=taken)
    assert (outcome.status.state, outcome.status.reason) == ("Pending", "NameTaken")


# --- 11 ---


def test_point_11_the_evaluator_is_in_nobodys_cluster_but_its_own() -> None:
    owner = job(chief=1, worker=1, ps=1, evaluator=1)
    for name in ("chief-0", "worker-0", "ps-0", "evaluator-0"):
        value = tf_config(owner, task(name))
        assert value is not None
        assert ("evaluator" in json.loads(value)["cluster"]) == (name == "evaluator-0")


# --- 12 ---


def test_point_12_suspend_removes_and_resume_goes_on() -> None:
    owner = begun(job(worker=2))
    stopping = replace(owner, spec=replace(owner.spec, run_policy=replace(owner.spec.run_policy, suspend=True)))
    outcome = see(stopping, running(owner), 9)
    assert (outcome.status.state, len(deleted(outcome))) == ("Suspended", 2)
    resumed = see(after(owner, outcome), [], 20)
    assert (created_pods(resumed), resumed.status.attempt) == (["mnist-worker-0", "mnist-worker-1"], 2)


def test_point_12_all_workers_must_end_under_all_workers(wording: Wording) -> None:
    owner = begun(job(worker=2, success_policy="AllWorkers"))
    one = see(owner, [killed(owner, "worker-0", 5, 0), *running(owner, "worker-1")], 6)
    assert one.status.state == "Running"
    both = see(after(owner, one), [killed(owner, "worker-0", 5, 0), killed(owner, "worker-1", 7, 0)], 8)
    assert "2 worker" in both.status.message
    wording(both.status.message)


def test_point_12_dynamic_workers_come_and_go_without_touching_the_others() -> None:
    owner = begun(job(worker=2, ps=1, enable_dynamic_worker=True))
    workers = owner.spec.tf_replica_specs["Worker"]
    specs = {**owner.spec.tf_replica_specs, "Worker": replace(workers, replicas=1)}
    fewer = replace(owner, spec=replace(owner.spec, tf_replica_specs=specs))
    outcome = plan(fewer, observed(owner, running(owner)), at(9))
    assert (deleted(outcome), created_pods(outcome)) == (["mnist-worker-1"], [])
    assert outcome.status.state == "Running"


def test_point_12_a_job_that_another_controller_manages_is_not_touched() -> None:
    owner = job(worker=1, run={"managed_by": "kueue.x-k8s.io/multikueue"})
    outcome = see(owner, with_services=False)
    assert (list(outcome.actions), outcome.status) == ([], owner.status)
