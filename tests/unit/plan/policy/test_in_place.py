"""Restarts in place: the state and the events of a replica whose container waits for its next start."""

from __future__ import annotations

from typing import Any

import pytest

from support.golden import Wording
from support.plan.builders import after, begun, job, news, pod, running, see
from tfjob.api.types import TFJobStatus
from tfjob.plan.plan import JobPlan


def restarts(outcome: JobPlan) -> list[str]:
    return [item.message for item in outcome.events if item.reason == "TFJobRestarting"]


def looping(**given: Any) -> Any:
    return begun(job(worker=1, policy="OnFailure", **given))


@pytest.mark.parametrize(
    ("pause", "wait", "next_start"),
    [
        ("10s", "10 s", "03:04:20 UTC"),
        ("1m20s", "80 s", "03:05:30 UTC"),
        ("5m0s", "300 s", "03:09:10 UTC"),
        ("soon", "", ""),
    ],
)
def test_a_container_that_waits_for_its_next_try_is_not_ready_and_the_status_says_why(
    pause: str, wait: str, next_start: str, wording: Wording
) -> None:
    owner = looping()
    outcome = see(owner, [pod(owner, "worker-0").running().backing_off(3, 5, pause)], 6)
    status = outcome.status
    assert (status.state, status.reason, status.ready) == ("Restarting", "CrashLoopBackOff", "0/1")
    assert next_start in status.message
    (event,) = outcome.events
    assert (event.reason, event.warning, wait in event.message) == ("TFJobRestarting", True, True)
    wording(status.message, event.message)


def test_v1_9s_counts_and_conditions_go_by_the_phase_of_the_pod_also_between_tries() -> None:
    owner = looping()
    status = see(owner, [pod(owner, "worker-0").running().backing_off(3, 5)], 6).status
    assert status.replica_statuses["Worker"].active == 1
    assert [one.type for one in status.conditions if one.status == "True"] == ["Created", "Running"]


def test_a_program_that_cannot_start_is_named(wording: Wording) -> None:
    owner = looping(run={"backoff_limit": 4})
    typo = pod(owner, "worker-0").backing_off(127, 5, "20s", "StartError", "cannot run 'pyhton': not found")
    outcome = see(owner, [typo], 6)
    (told,) = restarts(outcome)
    assert "pyhton" in told
    assert "pyhton" in outcome.status.message
    wording(told, outcome.status.message)


def test_the_same_wait_is_told_and_written_once() -> None:
    owner = looping()
    waits = [pod(owner, "worker-0").running().backing_off(3, 5)]
    first = see(owner, waits, 6)
    owner = after(owner, first)
    second = see(owner, waits, 9)
    assert (second.status, news(second)) == (owner.status, [])


def test_a_restart_that_was_told_when_it_was_due_is_not_told_again_when_it_happens(wording: Wording) -> None:
    owner = looping()
    replica = pod(owner, "worker-0").running()
    owner = after(owner, see(owner, [replica.backing_off(3, 5)], 6))
    again = see(owner, [replica.restarted(3, 5)], 16)
    assert (again.status.state, again.status.reason, again.status.ready) == ("Running", "", "1/1")
    assert (again.status.restarts, restarts(again)) == (1, [])
    next_wait = see(after(owner, again), [replica.backing_off(3, 20, "20s")], 21)
    (told,) = restarts(next_wait)
    assert "retry 2" in told
    wording(told)


def test_a_restart_without_a_pause_is_told_when_it_was_made(wording: Wording) -> None:
    owner = looping()
    outcome = see(owner, [pod(owner, "worker-0").restarted(3, 5)], 6)
    (told,) = restarts(outcome)
    assert "retry 1" in told
    wording(told)
    assert (outcome.status.state, outcome.status.ready) == ("Running", "1/1")


def test_a_container_that_has_just_ended_is_not_ready_and_told_when_it_is_known_how_long_it_waits(
    wording: Wording,
) -> None:
    owner = looping()
    outcome = see(owner, [pod(owner, "worker-0").running().exited(3, 5, phase="Running")], 6)
    status = outcome.status
    assert (status.state, status.reason, status.ready) == ("Restarting", "Restarting", "0/1")
    assert restarts(outcome) == []
    wording(status.message)


def test_a_job_runs_while_one_of_its_deciding_replicas_does_but_says_who_waits() -> None:
    owner = begun(job(worker=2, policy="OnFailure"))
    status = see(owner, [*running(owner, "worker-0"), pod(owner, "worker-1").backing_off(3, 5)], 6).status
    assert (status.state, status.reason, status.ready) == ("Running", "CrashLoopBackOff", "1/2")


def test_many_replicas_that_fail_together_are_told_by_one_of_them() -> None:
    owner = begun(job(worker=5, policy="OnFailure"))
    pods = [pod(owner, f"worker-{index}").backing_off(1, 5 + index / 2) for index in range(5)]
    first = see(owner, [*pods[:1], *running(owner, *(f"worker-{index}" for index in range(1, 5)))], 6)
    assert len(restarts(first)) == 1
    assert restarts(see(after(owner, first), pods, 9)) == []


def test_restarts_of_before_the_take_over_from_v1_9_are_no_news() -> None:
    owner = looping()
    replica = pod(owner, "worker-0").restarted(3, 5)
    written = TFJobStatus(conditions=owner.status.conditions, start_time=owner.status.start_time)
    taken = see(job(worker=1, policy="OnFailure", status=written), [replica], 6)
    assert restarts(taken) == []
    assert taken.status.told_restart is not None
