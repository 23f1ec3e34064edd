"""Which children are made and removed."""

from __future__ import annotations

from msgspec.structs import replace

from support.plan.builders import (
    after,
    at,
    begun,
    created_pods,
    created_services,
    deleted,
    job,
    observed,
    pod,
    running,
    see,
    status,
)
from tfjob.api.dialect import BATCH
from tfjob.api.types import PARALLELISM, TFJob
from tfjob.plan.plan import plan
from tfjob.plan.replicas import is_resized, stale_pods


def scaled(owner: TFJob, **counts: int) -> TFJob:
    """The job after an edit of its numbers of replicas."""
    specs = dict(owner.spec.tf_replica_specs)
    for name, count in counts.items():
        specs[name] = replace(specs[name], replicas=count)
    return replace(owner, spec=replace(owner.spec, tf_replica_specs=specs))


def test_everything_is_made_in_the_first_pass_pods_first() -> None:
    outcome = see(job(chief=1, worker=2), with_services=False)
    assert created_pods(outcome) == ["mnist-chief-0", "mnist-worker-0", "mnist-worker-1"]
    assert created_services(outcome) == ["mnist-chief-0", "mnist-worker-0", "mnist-worker-1"]


def test_what_is_there_is_not_made_again() -> None:
    owner = begun(job(worker=2))
    assert see(owner, running(owner), 5).actions == []


def test_only_what_is_missing_is_made() -> None:
    owner = job(worker=3, ps=1, status=status())
    assert created_pods(see(owner, running(owner, "worker-0", "ps-0"))) == ["mnist-worker-1", "mnist-worker-2"]


def test_a_finished_replica_whose_pod_is_gone_is_not_made_again() -> None:
    owner = job(worker=2, success_policy="AllWorkers", status=status(completed_indexes={"Worker": "1"}))
    assert created_pods(see(owner, running(owner, "worker-0"))) == []


def test_a_finished_replica_keeps_its_pod_for_its_logs() -> None:
    owner = begun(job(worker=2, success_policy="AllWorkers"))
    assert see(owner, [*running(owner, "worker-0"), pod(owner, "worker-1").exited(0, 5)], 9).actions == []


def test_no_pod_of_a_gang_is_made_while_one_of_an_older_attempt_exists() -> None:
    owner = job(worker=3, status=status(attempt=2))
    old = pod(owner, "worker-1", attempt=1).running()
    assert created_pods(see(owner, [old])) == []
    assert deleted(see(owner, [old])) == ["mnist-worker-1"]
    assert see(owner, [old.deleting()]).actions == [], "it was asked to go: wait"
    assert created_pods(see(owner)) == ["mnist-worker-0", "mnist-worker-1", "mnist-worker-2"]


def test_tasks_that_restart_alone_do_not_wait_for_each_other() -> None:
    owner = job(worker=2, ps=1, status=status(task_restarts={"worker-1": 1}))
    old = pod(owner, "worker-1", attempt=1).running().deleting()
    assert created_pods(see(owner, [old, *running(owner, "ps-0")])) == ["mnist-worker-0"]


def test_scaling_down_removes_pods_and_services_and_scaling_up_makes_them() -> None:
    owner = begun(job(worker=3, ps=1))
    fewer = scaled(owner, Worker=2)
    pods = running(owner)
    seen = observed(owner, pods)
    assert [child.metadata.name for child in stale_pods(fewer, fewer.status, seen)] == ["mnist-worker-2"]
    outcome = see(fewer, pods, 9)
    assert deleted(outcome) == ["mnist-worker-2"]
    more = scaled(owner, Worker=4)
    assert created_pods(see(more, pods, 9)) == ["mnist-worker-3"]


def test_surplus_services_go() -> None:
    owner = begun(job(worker=3, ps=1))
    fewer = scaled(owner, Worker=2)
    seen = observed(owner, running(fewer))
    assert deleted(plan(fewer, seen, at(9)), "Service") == ["mnist-worker-2"]


def test_a_task_that_was_scaled_away_and_back_waits_for_its_old_pod_and_that_is_no_restart() -> None:
    owner = begun(job(worker=3, ps=1))
    pods = running(owner)
    fewer = scaled(owner, Worker=2)
    shrunk = after(fewer, see(fewer, pods, 9))
    again = scaled(shrunk, Worker=3)
    leaving = [*running(owner, "worker-0", "worker-1", "ps-0"), pod(owner, "worker-2").running().deleting()]
    outcome = see(again, leaving, 10)
    assert (outcome.actions, outcome.status.restarts, outcome.status.state) == ([], 0, "Running")
    outcome = see(after(again, outcome), running(owner, "worker-0", "worker-1", "ps-0"), 20)
    assert created_pods(outcome) == ["mnist-worker-2"]
    assert outcome.status.restarts == 0


def test_a_gang_starts_again_when_its_size_changes_and_waits_for_the_surplus_too() -> None:
    owner = begun(job(worker=3))
    fewer = scaled(owner, Worker=2)
    outcome = see(fewer, running(owner), 9)
    assert deleted(outcome) == ["mnist-worker-0", "mnist-worker-1", "mnist-worker-2"]
    assert (outcome.status.attempt, outcome.status.state, outcome.status.reason) == (2, "Restarting", "Resized")
    assert (outcome.status.restarts, outcome.status.retries) == (0, 0), "nobody failed"
    shrunk = after(fewer, outcome)
    surplus = [pod(owner, "worker-2").running().deleting()]
    assert created_pods(see(shrunk, surplus, 10)) == [], "it still talks to the others under its old TF_CONFIG"
    assert created_pods(see(shrunk, [], 11)) == ["mnist-worker-0", "mnist-worker-1"]


def test_a_gang_that_shrinks_to_one_task_starts_again_too() -> None:
    owner = begun(job(worker=2))
    fewer = scaled(owner, Worker=1)
    assert deleted(see(fewer, running(owner), 9)) == ["mnist-worker-0", "mnist-worker-1"]


def test_the_number_of_evaluators_does_not_concern_the_gang() -> None:
    owner = begun(job(worker=2, evaluator=1))
    more = scaled(owner, Evaluator=2)
    seen = observed(more, running(owner))
    assert not is_resized(more, seen, [])
    assert created_pods(see(more, running(owner), 9)) == ["mnist-evaluator-1"]


def test_a_wait_holds_up_the_restarted_task_alone() -> None:
    owner = begun(job(worker=2, ps=1))
    for second in (10, 12):
        others = running(owner, "worker-1", "ps-0")
        owner = after(owner, see(owner, [pod(owner, "worker-0").exited(137, at=second), *others], second))
        owner = after(owner, see(owner, running(owner), second + 1))
    owner = after(
        owner, see(owner, [pod(owner, "worker-0").exited(137, at=14), *running(owner, "worker-1", "ps-0")], 14)
    )
    more = scaled(owner, Worker=3)
    outcome = see(more, running(more, "worker-1", "ps-0"), 15)
    assert created_pods(outcome) == ["mnist-worker-2"], "the new one does not wait, the failing one does"
    assert outcome.again_at is not None


def test_a_batch_job_runs_no_more_at_once_than_its_parallelism() -> None:
    owner = job(worker=5, policy="Never", origin=BATCH, annotations={PARALLELISM: "2"}, success_policy="AllWorkers")
    owner = after(owner, see(owner))
    assert created_pods(see(owner)) == ["mnist-worker-0", "mnist-worker-1"]
    done = pod(owner, "worker-0").running().exited(0, 5)
    assert created_pods(see(owner, [done, *running(owner, "worker-1")], 6)) == ["mnist-worker-2"]
    leaving = pod(owner, "worker-0").running().deleting()
    assert created_pods(see(owner, [leaving, *running(owner, "worker-1")], 6)) == [], "what is leaving still runs"
