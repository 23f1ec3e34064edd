"""What is decided about a TfJob of tensorflow.org: as the first operator's documents say."""

from __future__ import annotations

from typing import Any

import pytest

from support.golden import Wording
from support.plan.builders import (
    after,
    at,
    begun,
    created_pods,
    deleted,
    job,
    news,
    observed,
    pod,
    running,
    see,
    services,
    task,
)
from tfjob.api.dialect import TENSORFLOW
from tfjob.api.names import owner_reference, runtime_id, task_labels
from tfjob.api.types import RUNTIME_ID, ChiefReference, TerminationPolicy, TFJob
from tfjob.api.versions.status import v1alpha1_status
from tfjob.plan.build.pods import pod_restart_policy
from tfjob.plan.facts.task_state import survey
from tfjob.plan.plan import plan
from tfjob.plan.policy.restarts import DONE, PERMANENT, RESTART, TF_JOB_TABLE, Again, Fail, decide

ENDS: dict[str, Any] = {
    "exit 0": lambda made: made.running().exited(0, 5),
    "exit 1-127": lambda made: made.running().exited(1, 5),
    "exit 128-255 (signal)": lambda made: made.running().exited(137, 5),
    "no program to execute": lambda made: made.running().exited(
        128, 5, "StartError", 'runc create failed: exec: "x": executable file not found in $PATH: unknown'
    ),
    "OOM kill": lambda made: made.running().oom(5),
    "second OOM kill in a row": lambda made: made.running().oom(5),
    "pod evicted, deleted or lost": lambda made: made.running().evicted(5),
}


def tf_job(chief: tuple[str, int] = ("Master", 0), **given: Any) -> TFJob:
    """A job as a manifest of tensorflow.org becomes one."""
    policy = TerminationPolicy(chief=ChiefReference(replica_name=chief[0], replica_index=chief[1]))
    notes = {RUNTIME_ID: "76no"}
    return job(origin=TENSORFLOW, annotations=notes, policy="OnFailure", termination_policy=policy, **given)


@pytest.mark.parametrize("row", TF_JOB_TABLE, ids=lambda row: row.cause)
@pytest.mark.parametrize("kind", ["master", "worker", "ps"])
def test_each_row_of_the_printed_table_is_what_is_decided(row: Any, kind: str) -> None:
    owner = begun(tf_job(master=1, worker=1, ps=1))
    name = f"{kind}-0"
    if "second" in row.cause:
        owner = after(owner, see(owner, running(owner)))
        owner.status.oom_killed.append(name)
    others = [other for other in ("master-0", "worker-0", "ps-0") if other != name]
    pods = [ENDS[row.cause](pod(owner, name)), *running(owner, *others)]
    outcome = see(owner, pods, 30)
    if outcome.status.reason == "Settling":
        outcome = see(after(owner, outcome), pods, 60)
    match getattr(row, kind):
        case "job succeeds":
            assert outcome.status.state == "Succeeded"
        case says if says == PERMANENT:
            assert outcome.status.state == "Failed"
        case says if says == RESTART:
            assert (outcome.status.restarts, deleted(outcome)) == (1, [f"{kind}-76no-0"])
        case says:
            assert says == DONE
            assert (outcome.status.restarts, deleted(outcome), created_pods(outcome)) == (0, [], [])


def test_the_table_has_a_row_for_every_end() -> None:
    assert [row.cause for row in TF_JOB_TABLE] == list(ENDS)


def test_a_worker_that_is_held_back_for_its_own_errors_does_not_excuse_the_chief() -> None:
    owner = begun(tf_job(master=1, worker=1, ps=1))
    for second in (10, 11):
        failed = pod(owner, "worker-0").running().exited(1, second)
        owner = after(owner, see(owner, [failed, *running(owner, "master-0", "ps-0")], second))
        owner = after(owner, see(owner, running(owner), second + 0.5))
    assert owner.status.back_off["worker-0"].not_before == at(21)
    pods = [pod(owner, "master-0").running(12).exited(1, 14), *running(owner, "ps-0", "worker-0")]
    assert see(owner, pods, 14).status.reason == "Settling"


def test_a_worker_that_fails_ten_times_is_started_ten_times() -> None:
    owner = begun(tf_job(master=1, worker=1, ps=1))
    second = 10.0
    for _ in range(10):
        failing = pod(owner, "worker-0").running(second).exited(1, second + 1)
        outcome = see(owner, [failing, *running(owner, "master-0", "ps-0")], second + 2)
        owner = after(owner, outcome)
        assert (outcome.status.state, deleted(outcome)) == ("Restarting", ["worker-76no-0"])
        second += 400
        again = see(owner, running(owner, "master-0", "ps-0"), second)
        assert created_pods(again) == ["worker-76no-0"]
        owner = after(owner, again)
    assert (owner.status.restarts, owner.status.task_restarts) == (10, {"worker-0": 10})


def test_an_error_of_the_master_is_final_although_a_worker_failed_before_it() -> None:
    owner = begun(tf_job(master=1, worker=1))
    worker, master = pod(owner, "worker-0").running().exited(1, 5), pod(owner, "master-0").running().exited(1, 5)
    views = survey(owner, owner.status, observed(owner, [worker, master]), at(6))
    assert isinstance(decide(owner, owner.status, views, at(6)), Fail)


def test_an_error_of_the_master_that_follows_the_loss_of_a_worker_is_no_error_of_its_own() -> None:
    """The difference to the documents: TensorFlow peers die of a peer's death."""
    owner = begun(tf_job(master=1, worker=1))
    worker, master = pod(owner, "worker-0").running().exited(137, 5), pod(owner, "master-0").running().exited(1, 9)
    views = survey(owner, owner.status, observed(owner, [worker, master]), at(10))
    assert isinstance(decide(owner, owner.status, views, at(10)), Again)


def test_another_chief_decides_and_a_master_is_then_an_ordinary_task(wording: Wording) -> None:
    owner = begun(tf_job(chief=("Worker", 1), master=1, worker=2, ps=1))
    failing = pod(owner, "master-0").running().exited(1, 5)
    assert see(owner, [failing, *running(owner, "worker-0", "worker-1", "ps-0")], 30).status.state == "Restarting"
    done = pod(owner, "worker-1").running().exited(0, 5)
    outcome = see(owner, [done, *running(owner, "master-0", "worker-0", "ps-0")], 30)
    assert (outcome.status.state, "worker-1" in outcome.status.message) == ("Succeeded", True)
    wording(outcome.status.message)


def test_children_are_named_labelled_and_owned_as_the_documents_show() -> None:
    owner = tf_job(master=1, ps=2)
    made = pod(owner, "ps-1").pod
    assert made.metadata.name == "ps-76no-1"
    assert made.spec["restartPolicy"] == "Never"
    labels = {"tensorflow.org": "", "job_type": "PS", "runtime_id": "76no", "tf_job_name": "mnist", "task_index": "1"}
    assert labels.items() <= task_labels(owner, "PS", 1).items() <= made.metadata.labels.items()
    reference = owner_reference(owner)
    assert (reference.api_version, reference.kind) == ("tensorflow.org/v1alpha1", "TfJob")
    service = services(owner)[2]
    assert service.metadata.name == "ps-76no-1"
    assert service.spec == {"selector": task_labels(owner, "PS", 1), "ports": [{"name": "tf-port", "port": 2222}]}


@pytest.mark.parametrize("name", ["master-0", "worker-0", "ps-0"])
def test_no_kubelet_restarts_a_container_by_itself(name: str) -> None:
    assert pod_restart_policy(tf_job(master=1, worker=1, ps=1), task(name)) == "Never"


def test_a_job_keeps_the_runtime_id_that_its_children_have() -> None:
    owner = begun(tf_job(master=1))
    owner.metadata.annotations[RUNTIME_ID] = "zzzz"
    assert runtime_id(owner) == "76no"


def test_the_end_shows_the_counts_that_were_seen_last_and_says_when_all_is_cleaned_up() -> None:
    owner = begun(tf_job(master=1, worker=1, ps=2))
    done = pod(owner, "master-0").running().exited(0, 5)
    others = running(owner, "worker-0", "ps-0", "ps-1")
    ended = see(owner, [done, *others], 6)
    shown = v1alpha1_status(after(owner, ended))
    counts = {replica["tf_replica_type"]: replica["ReplicasStates"] for replica in shown["replicaStatuses"]}
    assert counts == {"MASTER": {"Succeeded": 1}, "WORKER": {"Running": 1}, "PS": {"Running": 2}}
    assert shown["phase"] == "CleanUp"
    assert deleted(ended) == ["worker-76no-0", "ps-76no-0", "ps-76no-1"]

    owner = after(owner, ended)
    leaving = see(owner, [done, *(one.deleting(7) for one in others)], 7, with_services=False)
    assert v1alpha1_status(after(owner, leaving))["phase"] == "CleanUp"
    assert "TFJobSucceeded" not in news(leaving)
    gone = plan(owner, observed(owner, [done], with_services=False), at(8))
    assert (v1alpha1_status(after(owner, gone))["phase"], list(gone.actions)) == ("Done", [])
