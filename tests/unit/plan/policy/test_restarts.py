"""Which replica caused a failure, and which replicas restart."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from support.plan.builders import at, begun, job, observed, pod, running, status
from support.plan.judging import again, judge, rerun
from tfjob.api.dialect import BATCH
from tfjob.api.types import Restart, TFJob, Verdict
from tfjob.plan.facts.task_state import survey
from tfjob.plan.policy.restarts import (
    DONE,
    IN_PLACE,
    NO_PROGRAM,
    PERMANENT,
    RESTART,
    RETRY_TABLE,
    Again,
    Fail,
    Row,
    Settle,
    decide,
)

# --- the table --------------------------------------------------------------------------------------------------------

ENDS: dict[str, Any] = {
    "exit 0": [lambda p: p.running().exited(0, 5)],
    "exit 1-127": [lambda p, code=code: p.running().exited(code, 5) for code in (1, 2, 42, 126, 127)],
    "exit 128-255 (signal)": [
        lambda p, code=code: p.running().exited(code, 5) for code in (128, 130, 137, 139, 143, 255)
    ],
    "no program to execute": [
        lambda p, says=says: p.running().exited(128, 5, "StartError", f'runc create failed: exec: "x": {says}: unknown')
        for says in NO_PROGRAM
    ],
    "OOM kill": [lambda p: p.running().oom(5), lambda p: p.running().exited(1, 5, "OOMKilled")],
    "second OOM kill in a row": [lambda p: p.running().oom(5)],
    "pod failed without an exit code": [lambda p: p._status(phase="Failed")],
    "eviction, preemption, node loss": [
        lambda p: p.running().evicted(5),
        lambda p: p.evicted(code=None),
        lambda p: p.running().disrupted(5),
        lambda p: p._status(phase="Failed", reason="NodeLost"),
        lambda p: p._status(phase="Failed", reason="Shutdown"),
    ],
    "pod deleted or lost": [lambda p: p.running().deleting(), lambda p: None],
}
COLUMNS = {"Never": "never", "ExitCode": "exit_code", "OnFailure": "in_place", "Always": "in_place"}
ROWS = [
    pytest.param(row, policy, end, id=f"{row.cause}-{policy}-{number}")
    for row in RETRY_TABLE
    for policy in COLUMNS
    for number, end in enumerate(ENDS[row.cause])
]


@pytest.mark.parametrize(("row", "policy", "end"), ROWS)
def test_each_row_of_the_printed_table_is_what_is_decided(row: Row, policy: str, end: Any) -> None:
    before: dict[str, Any] = {"started": {"Worker": "0"}, "oom_killed": ["worker-0"] if "second" in row.cause else []}
    owner = job(worker=1, policy=policy, status=status(**before))
    says = getattr(row, COLUMNS[policy])
    in_place = IN_PLACE in says and (policy == "Always" or not says.startswith(DONE))
    made = end(pod(owner, "worker-0"))
    if in_place:
        made._status(phase="Running")  # the kubelet keeps the pod
    views = survey(owner, owner.status, observed(owner, [made] if made else []), at(9))
    decision = decide(owner, owner.status, views, at(9))
    if says == PERMANENT:
        assert isinstance(decision, Fail)
    elif says == RESTART:
        assert (again(decision).counted > 0) == (row.counts == "yes")
    else:
        assert decision is None
        assert bool(views[0].end and views[0].end.succeeded) == (not in_place)


def test_the_table_has_a_case_for_every_row() -> None:
    assert [row.cause for row in RETRY_TABLE] == list(ENDS)


def test_an_oom_kill_long_after_the_start_is_tried_again() -> None:
    owner = job(worker=1, status=status(oom_killed=["worker-0"]))
    assert isinstance(judge(owner, pod(owner, "worker-0").running().oom(29 * 60), second=1800), Fail)
    assert isinstance(judge(owner, pod(owner, "worker-0").running().oom(31 * 60), second=1900), Again)


def test_a_container_that_its_machine_could_not_start_is_tried_again() -> None:
    """The program may be all right."""
    owner = begun(job(worker=1))
    ended = pod(owner, "worker-0").exited(128, 5, "StartError", "failed to create shim task: context deadline exceeded")
    assert isinstance(judge(owner, ended), Again)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (127, "cannot run 'train': PATH has no such program. Check its name."),
        (126, "cannot run './train': Permission denied"),
        (128, "cannot change to the working folder '/app': No such file or directory"),
    ],
)
def test_a_pod_that_was_given_up_because_it_cannot_start_fails_the_job(code: int, says: str) -> None:
    """Only the kubelet of this machine gives up a pod with `OnFailure`."""
    owner = begun(job(worker=1, policy="OnFailure"))
    assert isinstance(judge(owner, pod(owner, "worker-0").exited(code, 5, "StartError", says)), Fail)


# --- root cause -------------------------------------------------------------------------------------------------------


def test_nothing_follows_when_nobody_failed() -> None:
    owner = begun(job(worker=2))
    assert judge(owner, *running(owner)) is None


def test_a_killed_worker_explains_the_chief_that_exits_after_it() -> None:
    owner = begun(job(chief=1, worker=2))
    chief = pod(owner, "chief-0").running().exited(1, at=14)
    killed = pod(owner, "worker-0").running().exited(137, at=10)
    assert rerun(judge(owner, chief, killed, *running(owner, "worker-1"))) == ("worker-0", True, set())


def test_within_one_second_the_order_is_unknown_and_the_retryable_end_is_the_cause() -> None:
    owner = begun(job(chief=1, worker=1))
    chief = pod(owner, "chief-0").running().exited(1, at=10.1)
    killed = pod(owner, "worker-0").running().exited(137, at=10.9)
    assert rerun(judge(owner, chief, killed)) == ("worker-0", True, set())


def test_a_kill_that_came_later_than_a_permanent_exit_does_not_excuse_it() -> None:
    owner = begun(job(chief=1, worker=1))
    chief = pod(owner, "chief-0").running().exited(1, at=10)
    killed = pod(owner, "worker-0").running().exited(137, at=13)
    decision = judge(owner, chief, killed, second=14)
    assert isinstance(decision, Fail), "all members have ended: nothing to wait for"
    assert decision.cause.replica == "chief-0"


@pytest.mark.parametrize(
    "lost",
    [
        lambda p: None,
        lambda p: p.running().deleting(),
        lambda p: p.running().evicted(40),
        lambda p: p.running().disrupted(40),
        lambda p: p.running().exited(255, 40, reason="Unknown"),  # its node was without power and is back
        lambda p: p.running().on("n1"),
    ],
)
def test_a_loss_is_the_cause_whenever_it_is_noticed(lost: Any) -> None:
    owner = begun(job(chief=1, worker=1, policy="Never"))
    chief = pod(owner, "chief-0").running().exited(1, at=30)
    gone = lost(pod(owner, "worker-0"))
    decision = judge(owner, *([chief, gone] if gone else [chief]), second=41, lost_nodes=("n1",))
    assert rerun(decision) == ("worker-0", True, set())
    assert again(decision).counted == 0


def test_a_loss_explains_a_retryable_end_too_and_so_it_is_not_counted() -> None:
    owner = begun(job(chief=1, worker=1))
    aborted = pod(owner, "chief-0").running().exited(134, at=10)
    decision = judge(owner, aborted, pod(owner, "worker-0").running().evicted(12))
    assert rerun(decision) == ("worker-0", True, set())
    assert again(decision).counted == 0


def test_a_node_that_does_not_answer_is_no_failure_by_itself() -> None:
    owner = begun(job(chief=1, worker=1))
    pods = [pod(owner, "chief-0").running(), pod(owner, "worker-0").running().on("n1")]
    assert judge(owner, *pods, lost_nodes=("n1",)) is None


NODES: dict[str, dict[str, str]] = {
    "local pods have no node": {},
    "all on one node": {"worker-0": "n0", "worker-1": "n0", "ps-0": "n0", "evaluator-0": "n0"},
    "a server elsewhere": {"worker-0": "n0", "worker-1": "n0", "ps-0": "n1", "evaluator-0": "n0"},
    "a worker elsewhere": {"worker-0": "n0", "worker-1": "n1", "ps-0": "n0", "evaluator-0": "n0"},
    "an evaluator elsewhere": {"worker-0": "n0", "worker-1": "n0", "ps-0": "n0", "evaluator-0": "n1"},
    "some wait for a node": {"worker-0": "n0"},
}


@pytest.mark.parametrize(
    ("shape", "nodes", "seconds"),
    [
        ({"worker": 2}, "local pods have no node", 15),
        ({"worker": 2}, "all on one node", 15),
        ({"worker": 2, "ps": 1, "evaluator": 1}, "local pods have no node", 5),
        ({"worker": 2, "ps": 1, "evaluator": 1}, "all on one node", 5),
        ({"worker": 2, "ps": 1, "evaluator": 1}, "a server elsewhere", 15),
        ({"worker": 2, "ps": 1, "evaluator": 1}, "a worker elsewhere", 15),
        ({"worker": 2, "ps": 1, "evaluator": 1}, "an evaluator elsewhere", 5),
        ({"worker": 2, "ps": 1, "evaluator": 1}, "some wait for a node", 5),
    ],
)
@pytest.mark.parametrize("ended", [10, -600, 600], ids=["in time", "told late", "by a clock that is ahead"])
def test_a_permanent_exit_is_held_for_a_settling_time_from_when_it_is_seen(
    shape: dict[str, Any], nodes: str, seconds: int, ended: float
) -> None:
    owner = begun(job(**shape))
    pods = {one.pod.metadata.name.removeprefix("mnist-"): one for one in running(owner)}
    for name, node in NODES[nodes].items():
        if name in pods:
            pods[name].on(node)
    pods["worker-0"].exited(1, at=ended)
    held = judge(owner, *pods.values(), second=10)
    assert isinstance(held, Settle)
    assert (held.since, held.until) == (at(10), at(10 + seconds))
    assert judge(owner, *pods.values(), second=10 + seconds - 0.1, seen=10) == held
    assert isinstance(judge(owner, *pods.values(), second=10 + seconds, seen=10), Fail)


def test_who_has_ended_or_is_done_is_no_cause_to_wait_for_though_on_another_node() -> None:
    owner = begun(job(worker=3, ps=1, success_policy="AllWorkers"))
    failed = pod(owner, "worker-0").running().on("n0").exited(1, at=10)
    done = pod(owner, "worker-1").running().on("n1").exited(0, at=9)
    ended = pod(owner, "worker-2").running().on("n1").exited(1, at=11)
    held = judge(owner, failed, done, ended, pod(owner, "ps-0").running().on("n0"), second=12)
    assert isinstance(held, Settle)
    assert held.until == at(17)


def test_a_clock_that_is_set_back_does_not_prolong_the_settling() -> None:
    owner = begun(job(worker=2))
    failed = pod(owner, "worker-0").running().exited(1, at=10)
    held = judge(owner, failed, *running(owner, "worker-1"), second=20, seen=600)
    assert isinstance(held, Settle)
    assert (held.since, held.until) == (at(20), at(35))


def test_what_an_older_version_wrote_while_it_was_settling_is_settled_anew() -> None:
    owner = begun(job(worker=2))
    owner = replace(owner, status=replace(owner.status, reason="Settling"))
    failed = pod(owner, "worker-0").running().exited(1, at=10)
    held = judge(owner, failed, *running(owner, "worker-1"), second=24)
    assert isinstance(held, Settle)
    assert held.until == at(39)


def test_a_single_task_is_judged_at_once() -> None:
    owner = begun(job(worker=1))
    assert isinstance(judge(owner, pod(owner, "worker-0").running().exited(1, at=10), second=10), Fail)


def test_an_evaluator_that_still_runs_does_not_prolong_the_settling_of_a_gang() -> None:
    owner = begun(job(worker=2, evaluator=1))
    ended = [pod(owner, f"worker-{index}").running().exited(1, at=10) for index in range(2)]
    assert isinstance(judge(owner, *ended, *running(owner, "evaluator-0"), second=11), Fail)


def test_an_evaluator_is_no_cause_of_a_chiefs_failure() -> None:
    owner = begun(job(chief=1, worker=1, evaluator=1))
    killed = pod(owner, "evaluator-0").running().exited(137, at=9)
    chief = pod(owner, "chief-0").running().exited(1, at=10)
    others = running(owner, "worker-0")
    assert isinstance(judge(owner, killed, chief, *others, second=12), Settle)
    decision = judge(owner, killed, chief, *others, second=27, seen=12)
    assert isinstance(decision, Fail)
    assert decision.cause.replica == "chief-0"


def test_an_evaluator_restarts_alone() -> None:
    owner = begun(job(chief=1, worker=1, evaluator=1))
    killed = pod(owner, "evaluator-0").running().exited(137, at=9)
    assert rerun(judge(owner, killed, *running(owner, "chief-0", "worker-0"))) == (
        "evaluator-0",
        False,
        {"evaluator-0"},
    )


def test_an_evaluators_permanent_exit_fails_the_job() -> None:
    owner = begun(job(chief=1, worker=1, evaluator=1))
    failed = pod(owner, "evaluator-0").running().exited(1, at=9)
    assert isinstance(judge(owner, failed, *running(owner, "chief-0", "worker-0"), second=25, seen=10), Fail)


def test_a_gang_member_never_restarts_without_its_gang_even_if_an_evaluator_failed_first() -> None:
    owner = begun(job(chief=1, worker=1, evaluator=1))
    pods = [pod(owner, "evaluator-0").running().exited(137, at=8), pod(owner, "worker-0").running().exited(137, at=9)]
    assert rerun(judge(owner, *pods, *running(owner, "chief-0"))) == ("worker-0", True, {"evaluator-0"})


def test_with_parameter_servers_only_the_lost_task_restarts() -> None:
    owner = begun(job(chief=1, worker=2, ps=1))
    killed = pod(owner, "worker-1").running().exited(137, at=9)
    assert rerun(judge(owner, killed, *running(owner, "chief-0", "worker-0", "ps-0"))) == (
        "worker-1",
        False,
        {"worker-1"},
    )


# --- limits, elastic jobs, batch --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("retries", "outcome"), [(0, Again), (1, Again), (2, Fail)])
def test_backoff_limit_is_how_many_incidents_are_tried_again(retries: int, outcome: type) -> None:
    owner = job(worker=2, run={"backoff_limit": 2}, status=status(retries=retries))
    killed = pod(owner, "worker-0").running().exited(137, at=9)
    decision = judge(owner, killed, *running(owner, "worker-1"))
    assert isinstance(decision, outcome)
    if isinstance(decision, Fail):
        assert (decision.reason, decision.cause.replica) == ("BackoffLimitExceeded", "worker-0")


def test_losses_do_not_use_up_the_limit() -> None:
    owner = job(worker=2, run={"backoff_limit": 0}, status=status(retries=0))
    evicted = pod(owner, "worker-0").running().evicted(9)
    assert again(judge(owner, evicted, *running(owner, "worker-1"))).counted == 0


def test_a_worker_of_an_elastic_job_may_fail() -> None:
    owner = begun(job(worker=2, ps=1, enable_dynamic_worker=True, policy="Never"))
    failed = pod(owner, "worker-1").running().exited(1, at=9)
    assert judge(owner, failed, *running(owner, "worker-0", "ps-0")) is None
    lost = pod(owner, "ps-0").running().evicted(12)
    assert rerun(judge(owner, failed, lost, *running(owner, "worker-0"))) == ("ps-0", False, {"ps-0"}), (
        "what was let pass is not started again because of another task"
    )


def test_under_exit_code_a_permanent_exit_of_an_elastic_worker_fails_the_job() -> None:
    owner = begun(job(worker=2, ps=1, enable_dynamic_worker=True))
    failed = pod(owner, "worker-1").running().exited(1, at=9)
    assert isinstance(judge(owner, failed, *running(owner, "worker-0", "ps-0"), seen=9), Fail)


def test_a_batch_job_replaces_failed_pods_and_counts_each() -> None:
    owner = begun(job(worker=3, policy="Never", origin=BATCH, run={"backoff_limit": 6}))
    failed = [pod(owner, f"worker-{index}").running().exited(1, at=9) for index in range(2)]
    decision = judge(owner, *failed, *running(owner, "worker-2"))
    assert rerun(decision) == ("worker-0", False, {"worker-0", "worker-1"})
    assert again(decision).counted == 2


# --- failures that follow from a cause that is already repaired: which of them count ----------------------------------


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
        ("no replica depends on an evaluator", repaired("evaluator-0", 20), 0, 24),
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
    text = "cannot run 'train': PATH has no such program"
    failed = pod(owner, name).running(21).exited(code, at=24, reason=reason, message=text)
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
