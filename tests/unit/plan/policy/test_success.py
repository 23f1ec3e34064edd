from __future__ import annotations

from typing import Any

import pytest

from support.golden import Wording
from support.plan.builders import PodBuilder, after, at, begun, deletes_job, job, listed, pod, running, see, task
from tfjob.api.types import ChiefReference, TerminationPolicy, TFJob
from tfjob.kinds import MACHINE_SETTINGS
from tfjob.plan.build.settings import Settings
from tfjob.plan.policy import run_policy
from tfjob.plan.policy.success import deciding_types, rule_met

PS_0 = TerminationPolicy(chief=ChiefReference(replica_name="WORKER", replica_index=1))


@pytest.mark.parametrize(
    ("shape", "done", "keyword"),
    [
        ({"chief": 1, "worker": 2}, ["chief-0"], "chief-0"),
        ({"chief": 1, "worker": 2}, ["worker-0", "worker-1"], None),
        ({"master": 1, "worker": 2}, ["master-0"], "master-0"),
        ({"chief": 0, "worker": 1}, ["worker-0"], "worker-0"),
        ({"worker": 2}, ["worker-0"], "worker-0"),
        ({"worker": 2}, ["worker-1"], None),
        ({"worker": 2, "success_policy": "AllWorkers"}, ["worker-0"], None),
        ({"worker": 2, "success_policy": "AllWorkers"}, ["worker-0", "worker-1"], "2 worker"),
        ({"worker": 1, "success_policy": "AllWorkers"}, ["worker-0"], "worker-0"),
        ({"chief": 1, "worker": 1, "success_policy": "AllWorkers"}, ["chief-0"], "chief-0"),
        ({"ps": 1, "evaluator": 1}, ["ps-0"], None),
        ({"ps": 1, "evaluator": 1}, ["ps-0", "evaluator-0"], "replica"),
        ({"worker": 2, "termination_policy": PS_0}, ["worker-0"], None),
        ({"worker": 2, "termination_policy": PS_0}, ["worker-1"], "worker-1"),
        ({"worker": 0}, [], None),
    ],
)
def test_the_rule_that_ends_a_job_well(
    shape: dict[str, Any], done: list[str], keyword: str | None, wording: Wording
) -> None:
    rule = rule_met(job(**shape), {task(name) for name in done})
    assert (rule is None) == (keyword is None)
    assert (keyword or "") in (rule or "")
    wording(rule or "")


@pytest.mark.parametrize(
    ("shape", "types"),
    [
        ({"chief": 1, "worker": 1, "ps": 1}, ("Chief",)),
        ({"worker": 1, "ps": 1}, ("Worker",)),
        ({"ps": 1, "evaluator": 1}, ("Evaluator", "PS")),
    ],
)
def test_whose_running_makes_the_job_running(shape: dict[str, Any], types: tuple[str, ...]) -> None:
    assert tuple(sorted(deciding_types(job(**shape)))) == types


# --- a stopped job ----------------------------------------------------------------------------------------------------


def stopped(owner: TFJob, reason: str = "Stopped") -> TFJob:
    """The job after the pass that deletes its pods."""
    owner = run_policy.suspended(owner, reason)
    return after(owner, see(owner, running(owner), 10, MACHINE_SETTINGS))


def leaving(owner: TFJob, **codes: int) -> list[PodBuilder]:
    """The pods under deletion, with the exit codes of those that have ended."""
    names = {name: name.replace("_", "-") for name in codes}
    return [pod(owner, names[name]).running().exited(code, 11).deleting(10) for name, code in codes.items()]


def test_a_stopped_job_whose_replicas_all_exited_0_has_succeeded(wording: Wording) -> None:
    owner = stopped(begun(job(chief=1, worker=1, run={"ttl_seconds_after_finished": 5})))
    assert owner.status.state == "Suspended"
    first = see(owner, leaving(owner, chief_0=0), 12, MACHINE_SETTINGS)
    assert first.status.state == "Suspended", "the chief alone no longer decides"
    owner = after(owner, first)
    last = see(owner, leaving(owner, worker_0=0), 13, MACHINE_SETTINGS)
    assert (last.status.state, last.status.completion_time) == ("Succeeded", at(13))
    assert listed(last) == ["Created", "-Running", "-Suspended", "Succeeded"]
    assert [last.status.replica_statuses[kind].succeeded for kind in ("Chief", "Worker")] == [1, 1]
    wording(last.status.message)
    owner = after(owner, last)
    assert see(owner, [], 14, MACHINE_SETTINGS).status == owner.status
    assert deletes_job(see(owner, [], 19, MACHINE_SETTINGS))


@pytest.mark.parametrize(
    ("reason", "policy", "codes", "settings"),
    [
        pytest.param("Stopped", "Never", {"chief_0": 0, "worker_0": 143}, MACHINE_SETTINGS, id="one was killed"),
        pytest.param("Stopped", "Never", {"worker_0": 0}, MACHINE_SETTINGS, id="one did not start"),
        pytest.param("Suspended", "Never", {"chief_0": 0, "worker_0": 0}, MACHINE_SETTINGS, id="suspended"),
        pytest.param("Interrupted", "Never", {"chief_0": 0, "worker_0": 0}, MACHINE_SETTINGS, id="interrupted"),
        pytest.param("Stopped", "Always", {"chief_0": 0, "worker_0": 0}, MACHINE_SETTINGS, id="servers"),
        pytest.param("Stopped", "Never", {"chief_0": 0, "worker_0": 0}, Settings(), id="on a cluster"),
    ],
)
def test_any_other_job_that_ends_while_it_is_stopped_can_be_resumed(
    reason: str, policy: str, codes: dict[str, int], settings: Settings
) -> None:
    owner = stopped(begun(job(chief=1, worker=1, policy=policy)), reason)
    owner = after(owner, see(owner, leaving(owner, **codes), 12, settings))
    outcome = see(owner, [], 20, settings)
    assert (outcome.status.state, outcome.status.completion_time) == ("Suspended", None)
    resumed = see(run_policy.resumed(after(owner, outcome)), [], 30, settings)
    assert (resumed.status.attempt, resumed.status.completed_indexes) == (2, {})


def test_replicas_that_had_ended_before_the_stop_count_too() -> None:
    owner = begun(job(worker=2, success_policy="AllWorkers"))
    owner = after(owner, see(owner, [pod(owner, "worker-0").exited(0, 5), *running(owner, "worker-1")], 6))
    owner = stopped(owner)
    assert see(owner, leaving(owner, worker_1=0), 12, MACHINE_SETTINGS).status.state == "Succeeded"
