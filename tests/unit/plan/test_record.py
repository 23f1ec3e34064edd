"""What a status remembers."""

from __future__ import annotations

from msgspec.structs import replace

from support.plan.builders import T0, after, at, begun, created_pods, job, listed, pod, running, see, status
from tfjob.api.types import Restart, TFJob, Verdict
from tfjob.plan.policy.restarts import Again
from tfjob.plan.record import OOM_NAMES, begin, record


def suspended(owner: TFJob, suspend: bool = True) -> TFJob:
    run_policy = replace(owner.spec.run_policy, suspend=suspend)
    return replace(owner, spec=replace(owner.spec, run_policy=run_policy))


def test_the_first_pass_begins_the_first_attempt() -> None:
    begins = begin(job(worker=1), T0)
    assert (begins.attempt, begins.start_time, begins.observed_generation) == (1, T0, 1)
    assert [one.type for one in begins.conditions] == ["Created"]


def test_a_pod_is_remembered_once_it_was_seen() -> None:
    owner = begun(job(worker=3), [])
    assert owner.status.started == {}
    assert see(owner, running(owner, "worker-0", "worker-2")).status.started == {"Worker": "0,2"}


def test_completion_is_written_in_the_pass_that_first_sees_it() -> None:
    owner = begun(job(worker=2, success_policy="AllWorkers"))
    seen = see(owner, [pod(owner, "worker-0").exited(0, 5), *running(owner, "worker-1")], 6)
    assert seen.status.completed_indexes == {"Worker": "0"}


def test_a_restart_is_written_before_anything_is_deleted_or_made() -> None:
    owner = begun(job(worker=2))
    outcome = see(owner, [pod(owner, "worker-0").exited(137, 5), *running(owner, "worker-1")], 6)
    written = outcome.status
    assert (written.attempt, written.restarts, written.retries, written.started) == (2, 1, 1, {})
    assert written.last_restart is not None
    assert (written.last_restart.scope, written.last_restart.cause.exit_code) == ("Gang", 137)
    assert written.last_restart.not_before == at(6)


def test_restarts_in_place_are_counted_once() -> None:
    owner = begun(job(worker=1, policy="OnFailure"))
    pods = [pod(owner, "worker-0", attempt=1).restarted(1, at=5, times=2)]
    first = see(owner, pods, 6)
    assert (first.status.restarts, first.status.retries, first.status.task_restarts) == (2, 2, {"worker-0": 2})
    assert see(after(owner, first), pods, 7).status == first.status


def test_restarts_in_place_that_follow_from_each_other_are_one_incident() -> None:
    owner = begun(job(chief=1, worker=2, policy="OnFailure"))
    killed = pod(owner, "worker-0", attempt=1).restarted(137, at=10)
    first = see(owner, [killed, *running(owner, "chief-0", "worker-1")], 11)
    owner = after(owner, first)
    assert (first.status.restarts, first.status.retries) == (1, 1)
    peers = [pod(owner, name, attempt=1).running().restarted(1, at=14) for name in ("chief-0", "worker-1")]
    second = see(owner, [killed, *peers], 15)
    assert (second.status.restarts, second.status.retries) == (3, 1)
    owner = after(owner, second)
    later = pod(owner, "chief-0", attempt=1).restarted(1, at=14).restarted(1, at=100)
    third = see(owner, [killed, later, peers[1]], 101)
    assert (third.status.restarts, third.status.retries) == (4, 2)


def test_a_pod_of_a_lost_status_is_no_restart() -> None:
    owner = job(worker=1, policy="OnFailure", status=status())
    outcome = see(owner, [pod(owner, "worker-0", attempt=5).running()], 1)
    assert (outcome.status.restarts, outcome.status.retries) == (0, 0)


def test_a_resumed_job_is_a_new_attempt_and_its_old_pods_are_no_losses() -> None:
    owner = begun(job(worker=2, evaluator=1))
    pods = running(owner)
    stopping = see(suspended(owner), pods, 9)
    stopped = after(owner, stopping)
    leaving = [builder.deleting(9) for builder in pods]
    resumed = see(suspended(stopped, False), leaving, 10)
    assert resumed.status.attempt == 2
    assert (resumed.status.restarts, resumed.status.start_time, resumed.actions) == (0, at(10), [])
    assert listed(resumed) == ["Created", "-Running", "-Suspended"]
    assert [item.reason for item in resumed.events] == ["TFJobResumed"]
    gone = see(after(owner, resumed), [], 12)
    assert created_pods(gone) == ["mnist-evaluator-0", "mnist-worker-0", "mnist-worker-1"]


def test_a_gangs_restart_leaves_its_evaluator_alone() -> None:
    owner = begun(job(worker=2, evaluator=1))
    evaluator = pod(owner, "evaluator-0").running()
    outcome = see(owner, [pod(owner, "worker-0").exited(137, 5), *running(owner, "worker-1"), evaluator], 6)
    assert [getattr(action, "name", "") for action in outcome.actions] == ["mnist-worker-0", "mnist-worker-1"]
    owner = after(owner, outcome)
    next_pass = see(owner, [evaluator], 7)
    assert next_pass.status.restarts == 1
    assert next_pass.status.task_restarts == {}


def test_a_gangs_restart_runs_those_again_that_were_done_but_not_a_done_evaluator() -> None:
    owner = job(
        worker=2,
        evaluator=1,
        success_policy="AllWorkers",
        status=status(started={"Worker": "0-1", "Evaluator": "0"}, completed_indexes={"Worker": "1", "Evaluator": "0"}),
    )
    outcome = see(owner, [pod(owner, "worker-0").exited(137, 5), pod(owner, "worker-1").exited(0, 4)], 6)
    assert outcome.status.completed_indexes == {"Evaluator": "0"}


def test_an_oom_kill_is_remembered_until_the_replica_fails_in_another_way() -> None:
    cause = Verdict(replica="worker-0", exit_code=137)
    oom = Again(cause, True, frozenset(), counted=1, oom=frozenset({"worker-0"}))
    killed = Again(cause, True, frozenset(), counted=1)
    lost = Again(cause, True, frozenset(), counted=0)
    owner = job(worker=2)
    once = record(owner, status(), oom, T0)
    assert once.oom_killed == ["worker-0"]
    assert record(owner, once, lost, T0).oom_killed == ["worker-0"], "a loss is not the replica's own failure"
    assert record(owner, once, killed, T0).oom_killed == []
    crowd = status(oom_killed=[f"worker-{index}" for index in range(1, 200)])
    assert len(record(owner, crowd, oom, T0).oom_killed) == OOM_NAMES


def test_what_follows_from_a_recorded_restart_is_not_counted_again() -> None:
    before = status(last_restart=Restart(streak=2, not_before=at(5)), restarts=3, retries=3)
    follows = Again(Verdict(replica="ps-0"), False, frozenset(), incident=False)
    now = record(job(worker=2, ps=1), before, follows, at(7))
    assert (now.restarts, now.retries, now.last_restart) == (3, 3, before.last_restart)
