"""Consequences of what is repaired already: who runs again without blame, and who does not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from plan.builders import at, begun, job, pod, running
from plan.judging import again, judge, rerun
from tfjob.api.types import Restart, TFJob, Verdict
from tfjob.plan.policy.restarts import Fail, Settle


def repaired(cause: str, second: float, code: int | None = 137, **given: Any) -> Restart:
    verdict = Verdict(replica=cause, exit_code=code, time=at(second))
    return Restart(cause=verdict, scope="Task", time=at(second), not_before=at(second), **given)


def test_a_worker_that_dies_of_a_parameter_servers_restart_runs_again_and_is_not_counted() -> None:
    owner = begun(job(worker=2, ps=1))
    owner = replace(owner, status=replace(owner.status, last_restart=repaired("ps-0", 20)))
    failed = pod(owner, "worker-0").running().exited(1, at=24)
    decision = judge(owner, failed, *running(owner, "worker-1", "ps-0"), second=25)
    assert rerun(decision) == ("ps-0", False, {"worker-0"})
    assert (again(decision).incident, again(decision).counted) == (False, 0)


@pytest.mark.parametrize(
    ("why", "restart", "started", "ended"),
    [
        ("it started after the restart and ended long after", repaired("ps-0", 20), 21, 90),
        ("it ended before the cause", repaired("ps-0", 20), 0, 18),
        ("it ended long after the cause was repaired", repaired("ps-0", 20), 0, 120),
        ("it is itself the one that was restarted", repaired("worker-0", 20), 0, 24),
        ("nobody depends on an evaluator", repaired("evaluator-0", 20), 0, 24),
    ],
)
def test_an_old_restart_does_not_excuse_an_exit(why: str, restart: Restart, started: float, ended: float) -> None:
    owner = begun(job(worker=2, ps=1))
    owner = replace(owner, status=replace(owner.status, last_restart=restart))
    failed = pod(owner, "worker-0").running(started).exited(1, at=ended)
    others = running(owner, "worker-1", "ps-0")
    assert isinstance(judge(owner, failed, *others, second=ended + 6, seen=ended), Fail), why


def aftershock(**replicas: Any) -> TFJob:
    """A job whose ps-0 was lost at 20 s and is back."""
    owner = begun(job(**replicas))
    return replace(owner, status=replace(owner.status, last_restart=repaired("ps-0", 20)))


def test_a_chief_that_fails_soon_after_a_server_is_back_runs_again_and_is_not_counted() -> None:
    """Workers that lived through the loss cannot reach the new server at once, and the chief that is back hears that.

    It is held first, in which time they can. What still fails after a minute has itself to blame.
    """
    owner = aftershock(chief=1, worker=2, ps=1)
    others = running(owner, "worker-0", "worker-1", "ps-0")
    failed = pod(owner, "chief-0").running(21).exited(1, at=24)
    assert isinstance(judge(owner, failed, *others, second=25, seen=24), Settle)
    decision = judge(owner, failed, *others, second=30, seen=24)
    assert rerun(decision) == ("ps-0", False, {"chief-0"})
    assert (again(decision).incident, again(decision).counted) == (False, 0)
    failed = pod(owner, "chief-0").running(78).exited(1, at=82)
    assert isinstance(judge(owner, failed, *others, second=88, seen=82), Fail)


@pytest.mark.parametrize(
    ("why", "name", "code", "reason"),
    [
        ("it needs no server", "evaluator-0", 1, "Error"),
        ("no server is to blame for its memory", "chief-0", 137, "OOMKilled"),
        ("there is nothing to execute", "chief-0", 127, "StartError"),
    ],
)
def test_what_cannot_come_of_a_lost_server_is_not_tried_again(why: str, name: str, code: int, reason: str) -> None:
    owner = aftershock(chief=1, worker=1, ps=1, evaluator=1)
    status = replace(owner.status, oom_killed=[name]) if reason == "OOMKilled" else owner.status
    owner = replace(owner, status=status)
    failed = pod(owner, name).running(21).exited(code, at=24, reason=reason, message="executable file not found")
    others = running(owner, *({"chief-0", "worker-0", "ps-0", "evaluator-0"} - {name}))
    assert isinstance(judge(owner, failed, *others, second=30, seen=24), Fail), why


def test_a_loss_that_was_noticed_late_still_explains_an_exit_shortly_before() -> None:
    owner = begun(job(worker=2, ps=1))
    owner = replace(owner, status=replace(owner.status, last_restart=repaired("ps-0", 20, code=None)))
    failed = pod(owner, "worker-0").running().exited(1, at=18)
    assert again(judge(owner, failed, *running(owner, "worker-1", "ps-0"), second=21)).cause.replica == "ps-0"


def test_a_peer_that_was_restarted_in_place_is_the_cause_and_the_gang_runs_again() -> None:
    owner = begun(job(chief=1, worker=1, policy={"chief": "ExitCode", "worker": "OnFailure"}))
    restarted = pod(owner, "worker-0").running().restarted(137, at=20)
    decision = judge(owner, pod(owner, "chief-0").running().exited(1, at=24), restarted, second=25)
    assert rerun(decision) == ("worker-0", True, set())
    assert not again(decision).incident
