from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from support.plan.builders import at, job, observed, pod, running, services, status, task, template
from tfjob.api.dialect import BATCH
from tfjob.api.objects import ContainerState, ContainerStatus, ContainerTerminated, Pod
from tfjob.api.types import ReplicaSpec
from tfjob.plan.facts.task_state import survey
from tfjob.plan.facts.tasks import (
    Task,
    attempt_of,
    attempts_due,
    desired,
    gang,
    is_stale,
    main_container,
    members,
    policy_of,
    ranges,
    replicas_of,
    task_of,
)


def test_tasks_are_listed_in_the_order_in_which_v1_9_evaluates_types() -> None:
    wanted = [one.name for one in desired(job(worker=2, ps=1, master=1, evaluator=1, chief=1))]
    assert wanted == ["chief-0", "evaluator-0", "master-0", "ps-0", "worker-0", "worker-1"]


def test_unset_replicas_are_one_and_zero_are_none() -> None:
    assert [one.name for one in desired(job(chief=None, worker=0))] == ["chief-0"]
    assert replicas_of(job(worker=1), "PS") == 0


def test_the_children_of_a_task_are_known_by_their_labels() -> None:
    owner = job(worker=2)
    assert task_of(pod(owner, "worker-1").pod) == task("worker-1")
    assert [task_of(one) for one in services(owner)] == [task("worker-0"), task("worker-1")]
    assert task_of(Pod()) is None


@pytest.mark.parametrize(
    ("replica", "expected"),
    [
        (ReplicaSpec(restart_policy="ExitCode", template={"spec": {"restartPolicy": "Always"}}), "ExitCode"),
        (ReplicaSpec(template={"spec": {"restartPolicy": "Always"}}), "Always"),
        (ReplicaSpec(template=template()), "Never"),
        (ReplicaSpec(template=None), "Always"),
    ],
)
def test_a_templates_own_restart_policy_counts_when_the_replica_sets_none(replica: ReplicaSpec, expected: str) -> None:
    owner = job(ps=1)
    owner = replace(owner, spec=replace(owner.spec, tf_replica_specs={"PS": replica}))
    assert policy_of(owner, Task("PS", 0)) == expected


def test_the_main_container_is_the_one_called_tensorflow_else_the_first() -> None:
    first, named = ContainerStatus(name="a"), ContainerStatus(name="tensorflow")
    both = pod(job(worker=1), "worker-0")._status(container_statuses=[first, named]).pod
    only = pod(job(worker=1), "worker-0")._status(container_statuses=[first]).pod
    assert (main_container(both), main_container(only), main_container(Pod())) == (named, first, None)


def test_ranges_name_tasks_by_type_and_members_reads_them_back() -> None:
    tasks = {Task("Worker", 0), Task("Worker", 1), Task("PS", 3)}
    assert ranges(tasks) == {"PS": "3", "Worker": "0-1"}
    assert members(ranges(tasks)) == tasks


def test_a_restart_in_place_is_a_new_attempt_of_the_same_pod() -> None:
    owner = job(worker=2, policy="OnFailure")
    assert attempt_of(pod(owner, "worker-0", attempt=2).restarted(times=3).pod) == 5


def test_the_attempt_due_adds_the_gangs_attempts_and_the_tasks_own_restarts() -> None:
    owner = job(worker=2, evaluator=1)
    now = status(attempt=3, task_restarts={"evaluator-0": 1})
    assert attempts_due(owner, now)(task("worker-0")) == 3
    assert attempts_due(owner, now)(task("evaluator-0")) == 2, "a gang's restarts do not concern its evaluator"
    alone = job(worker=2, ps=1)
    assert attempts_due(alone, status(attempt=2, task_restarts={"worker-1": 4}))(task("worker-1")) == 6


def test_an_old_pod_stays_old_when_its_restart_in_place_is_reported_late() -> None:
    owner = job(worker=2, policy="OnFailure")
    late = pod(owner, "worker-0", attempt=1).restarted().pod
    assert is_stale(late, task("worker-0"), 2, started=set())
    assert not is_stale(late, task("worker-0"), 2, started={task("worker-0")})


SIDECAR = ContainerStatus(name="log", state=ContainerState(terminated=ContainerTerminated(exit_code=1)))
INIT = ContainerStatus(
    name="fetch", state=ContainerState(terminated=ContainerTerminated(exit_code=3, reason="Error", finished_at=at(2)))
)


@pytest.mark.parametrize(
    ("policy", "build", "lost_nodes", "expected"),
    [
        ("ExitCode", lambda p: p.running(), (), None),
        ("ExitCode", lambda p: p, (), None),
        ("ExitCode", lambda p: p.exited(0, 5), (), (0, "Completed", False)),
        ("ExitCode", lambda p: p.exited(1, 5), (), (1, "Error", False)),
        ("OnFailure", lambda p: p.exited(1, 5, phase="Running"), (), None),
        ("OnFailure", lambda p: p.exited(0, 5, phase="Running"), (), (0, "Completed", False)),
        ("Always", lambda p: p.exited(0, 5, phase="Running"), (), None),
        ("OnFailure", lambda p: p.exited(1, 5), (), (1, "Error", False)),
        ("ExitCode", lambda p: p.running().deleting(), (), (None, "PodDeleted", True)),
        ("ExitCode", lambda p: p.exited(0, 5).deleting(), (), (None, "PodDeleted", True)),
        ("ExitCode", lambda p: p.exited(1, 5).deleting(), (), (None, "PodDeleted", True)),
        ("ExitCode", lambda p: p.evicted(5), (), (137, "Evicted", True)),
        ("ExitCode", lambda p: p.evicted(5, code=None), (), (None, "Evicted", True)),
        ("ExitCode", lambda p: p.exited(255, 5, reason="Unknown"), (), (255, "Unknown", True)),
        ("ExitCode", lambda p: p.exited(255, 5, reason="Unknown", phase="Running"), (), (255, "Unknown", True)),
        ("OnFailure", lambda p: p.exited(255, 5, reason="Unknown", phase="Running"), (), None),
        ("ExitCode", lambda p: p.exited(255, 5), (), (255, "Error", False)),
        ("ExitCode", lambda p: p.disrupted(5), (), (143, "PreemptionByScheduler", True)),
        ("ExitCode", lambda p: p._status(phase="Failed", reason="OutOfnvidia.com/gpu"), (), (None, "OutOf", True)),
        ("ExitCode", lambda p: p._status(phase="Failed"), (), (None, "PodFailed", False)),
        ("ExitCode", lambda p: p._status(phase="Failed", init_container_statuses=[INIT]), (), (3, "Error", False)),
        ("ExitCode", lambda p: p.running().on("n1"), ("n1",), (None, "NodeNotReady", True)),
        ("ExitCode", lambda p: p.running().on("n1"), ("n2",), None),
        ("ExitCode", lambda p: p.exited(0, 5).on("n1"), ("n1",), (0, "Completed", False)),
    ],
)
def test_how_a_pod_says_that_its_task_has_ended(policy, build, lost_nodes, expected) -> None:  # type: ignore[no-untyped-def]
    owner = job(worker=1, policy=policy, status=status())
    (view,) = survey(
        owner, owner.status, observed(owner, [build(pod(owner, "worker-0"))], lost_nodes=lost_nodes), at(9)
    )
    end = view.end
    assert (end and (end.exit_code, end.reason[:5], end.infrastructure)) == (
        expected and (expected[0], expected[1][:5], expected[2])
    )


def test_a_sidecar_that_fails_does_not_undo_what_the_main_container_did() -> None:
    owner = job(worker=1, status=status())
    ended = pod(owner, "worker-0").exited(0, 5, phase="Failed")
    ended._status(container_statuses=[*ended.pod.status.container_statuses, SIDECAR])
    (view,) = survey(owner, owner.status, observed(owner, [ended]), at(9))
    assert view.end is not None
    assert view.end.succeeded


def test_a_pod_that_was_seen_and_is_gone_is_lost_and_one_that_was_never_made_is_not() -> None:
    owner = job(worker=2, status=status(started={"Worker": "0"}))
    lost, never = survey(owner, owner.status, observed(owner), at(9))
    assert lost.end is not None
    assert (lost.end.reason, lost.end.infrastructure, never.end) == ("PodLost", True, None)


def test_a_finished_task_has_no_end_to_judge_whatever_becomes_of_its_pod() -> None:
    owner = job(worker=1, status=status(completed_indexes={"Worker": "0"}, started={"Worker": "0"}))
    for pods in ([], running(owner), [pod(owner, "worker-0").exited(1).deleting()]):
        (view,) = survey(owner, owner.status, observed(owner, pods), at(9))
        assert (view.completed, view.end) == (True, None)


# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "members"),
    [
        ({"worker": 2}, {"worker-0", "worker-1"}),
        ({"chief": 1, "worker": 1}, {"chief-0", "worker-0"}),
        ({"master": 1, "worker": 1}, {"master-0", "worker-0"}),
        ({"chief": 1, "worker": 1, "evaluator": 1}, {"chief-0", "worker-0"}),
        ({"worker": 1}, set()),
        ({"chief": 1, "evaluator": 1}, set()),
        ({"chief": 1, "worker": 2, "ps": 1}, set()),
        ({"worker": 2, "ps": 0}, {"worker-0", "worker-1"}),
        ({"worker": 2, "enable_dynamic_worker": True}, set()),
        ({"worker": 2, "restart_scope": "Task"}, set()),
        ({"worker": 1, "ps": 1, "evaluator": 1, "restart_scope": "Gang"}, {"worker-0", "ps-0"}),
        ({"worker": 2, "origin": BATCH}, set()),
    ],
)
def test_who_restarts_together(shape: dict[str, Any], members: set[str]) -> None:
    assert {one.name for one in gang(job(**shape))} == members
