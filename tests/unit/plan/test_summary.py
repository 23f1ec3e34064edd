"""Counts, `ready`, state, reason and message."""

from __future__ import annotations

from msgspec.structs import replace

from support.golden import Wording
from support.plan.builders import after, begun, job, listed, pod, running, see
from tfjob.api.types import ReplicaStatus


def test_counts_are_by_phase_and_pending_pods_count_nowhere() -> None:
    owner = begun(job(chief=1, worker=3, ps=1), [])
    pods = [
        *running(owner, "chief-0", "ps-0"),
        pod(owner, "worker-0").exited(0, 5),
        pod(owner, "worker-1").exited(1, 5),
        pod(owner, "worker-2"),
    ]
    status = see(owner, pods, 6).status
    assert status.replica_statuses == {
        "Chief": ReplicaStatus(active=1),
        "PS": ReplicaStatus(active=1),
        "Worker": ReplicaStatus(succeeded=1, failed=1),
    }
    assert status.ready == "3/5"


def test_a_pod_that_is_being_deleted_counts_neither_as_active_nor_as_failed() -> None:
    owner = begun(job(worker=2, ps=1))
    status = see(owner, [pod(owner, "worker-0").running().deleting(), *running(owner, "worker-1", "ps-0")], 6).status
    assert status.replica_statuses["Worker"] == ReplicaStatus(active=1)


def test_a_job_is_pending_until_a_deciding_replica_runs() -> None:
    owner = begun(job(chief=1, worker=1), [])
    assert (owner.status.state, owner.status.reason) == ("Pending", "Starting")
    assert see(owner, running(owner, "worker-0"), 5).status.state == "Pending"
    outcome = see(owner, running(owner, "chief-0"), 5)
    assert (outcome.status.state, listed(outcome)) == ("Running", ["Created", "Running"])


def test_the_reason_for_waiting_is_shown_also_while_others_run(wording: Wording) -> None:
    owner = begun(job(worker=2), [])
    status = see(owner, [*running(owner, "worker-0"), pod(owner, "worker-1").unschedulable("no room")], 5).status
    assert (status.state, status.reason) == ("Running", "Unschedulable")
    assert "worker-1" in status.message
    wording(status.message)


def test_a_job_that_runs_without_one_of_its_replicas_says_which_also_if_nobody_knows_why(wording: Wording) -> None:
    owner = begun(job(worker=2, ps=1), [])
    status = see(owner, [*running(owner, "worker-0", "ps-0"), pod(owner, "worker-1")], 5).status
    assert (status.state, status.reason) == ("Running", "Starting")
    assert "worker-1" in status.message
    wording(status.message)
    owner = after(begun(owner), see(begun(owner), running(owner, "worker-0", "ps-0", "worker-1"), 6))
    smaller = replace(owner, spec=job(worker=1, ps=1).spec)
    smaller = after(smaller, see(smaller, running(owner), 7))
    grown = replace(smaller, spec=job(worker=2, ps=1).spec)
    leaving = pod(owner, "worker-1").running().deleting()
    status = see(grown, [*running(owner, "worker-0", "ps-0"), leaving], 8).status
    assert (status.state, "worker-1" in status.message) == ("Running", True)
    wording(status.message)


def test_a_restart_shows_its_cause_and_when_it_goes_on(wording: Wording) -> None:
    owner = begun(job(worker=1))
    first = see(owner, [pod(owner, "worker-0").exited(137, 5)], 6)
    assert (first.status.state, "SIGKILL" in first.status.message) == ("Restarting", True)
    owner = after(owner, first)
    owner = after(owner, see(owner, running(owner), 7))
    assert (owner.status.state, owner.status.reason, owner.status.message) == ("Running", "", "")
    second = see(owner, [pod(owner, "worker-0").exited(137, 8)], 9)
    assert "03:04:24 UTC" in second.status.message
    wording(first.status.message, second.status.message)
    assert second.again_at is not None


def test_a_restart_is_over_when_all_it_concerns_run_again() -> None:
    owner = begun(job(chief=1, worker=2))
    outcome = see(owner, [pod(owner, "worker-0").exited(137, 5), *running(owner, "chief-0", "worker-1")], 6)
    owner = after(owner, outcome)
    assert listed(outcome) == ["Created", "Restarting"]
    outcome = see(owner, [*running(owner, "chief-0", "worker-1"), pod(owner, "worker-0")], 7)
    assert (outcome.status.state, listed(outcome)) == ("Restarting", ["Created", "Restarting"])
    outcome = see(owner, running(owner), 8)
    assert (outcome.status.state, listed(outcome)) == ("Running", ["Created", "Running"])


def test_a_worker_that_was_let_fail_does_not_keep_an_elastic_job_restarting() -> None:
    owner = begun(job(worker=2, ps=1, enable_dynamic_worker=True, policy="Never"))
    failed = pod(owner, "worker-1").exited(1, 5)
    owner = after(owner, see(owner, [failed, *running(owner, "worker-0"), pod(owner, "ps-0").running().evicted(6)], 7))
    assert owner.status.state == "Restarting"
    assert see(owner, [failed, *running(owner, "worker-0", "ps-0")], 9).status.state == "Running"
