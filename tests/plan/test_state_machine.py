"""Whatever happens to a job, in whatever order: some things never happen, and in the end it ends.

The model cluster holds the invariants; here are the events, and plans with a fault each that the machine must find.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from msgspec.structs import replace

from plan.builders import job
from plan.model_cluster import INVARIANTS, Decide, ModelCluster, Violated, is_alive
from tfjob.api.types import TFJob
from tfjob.plan import attempts, memory, replicas
from tfjob.plan.actions import Action, Create, Delete
from tfjob.plan.children import Settings
from tfjob.plan.conditions import is_finished
from tfjob.plan.plan import Plan, plan
from tfjob.plan.tasks import Observed

SHAPES: list[dict[str, Any]] = [
    {"worker": 2},
    {"chief": 1, "worker": 2, "evaluator": 1},
    {"worker": 2, "ps": 1},
    {"chief": 1, "worker": 1, "ps": 1, "policy": "OnFailure"},
    {"worker": 3, "success_policy": "AllWorkers"},
    {"worker": 3, "ps": 1, "success_policy": "AllWorkers", "policy": "Never"},
    {"chief": 1, "worker": 1, "policy": {"chief": "ExitCode", "worker": "OnFailure"}},
    {"worker": 2, "ps": 1, "enable_dynamic_worker": True, "success_policy": "AllWorkers", "policy": "OnFailure"},
]
Event = Callable[[st.DataObject], None]
LIMITS = st.sampled_from([None, None, 0, 1, 3])
BOUNDED = settings(
    max_examples=100,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
HUNT = settings(BOUNDED, max_examples=400, phases=[Phase.generate], print_blob=False)


class Machine(RuleBasedStateMachine):
    """The life of one job: something happens, and the controller looks, or fails to."""

    decide: Decide = staticmethod(plan)
    only: str | None = None
    shapes: Sequence[dict[str, Any]] = SHAPES

    @initialize(data=st.data(), limit=LIMITS, clean=st.sampled_from(["None", "Running", "All"]))
    def submit(self, data: st.DataObject, limit: int | None, clean: str) -> None:
        shape = data.draw(st.sampled_from(self.shapes))
        run = {"backoff_limit": limit, "clean_pod_policy": clean}
        self.cluster = ModelCluster(job(**shape, run=run), type(self).decide, self.only)
        self.arrive()

    def arrive(self) -> None:
        self.cluster.come_to_rest()

    @rule(data=st.data())
    def something_happens(self, data: st.DataObject) -> None:
        """One rule for all, so that hypothesis leaves none of them out of an example."""
        event = data.draw(st.sampled_from(self.possible()))
        event(data)
        look = data.draw(st.sampled_from([self.look, self.look, self.look, self.nobody_looks, self.look_in_vain]))
        look(data)

    def teardown(self) -> None:
        if not hasattr(self, "cluster"):
            return
        self.cluster.run_to_the_end()
        state = self.cluster.job.status.state
        self.cluster.must("ends", state == "Succeeded" or self.cluster.failures, f"{state}, and nothing failed")

    def possible(self) -> list[Event]:
        """What can happen now; what is listed twice happens more often."""
        pending, alive, crashed, leaving = self.pending(), self.alive(), self.crashed(), self.leaving()
        return [
            *[self.time_passes, self.suspended_and_resumed, self.scaled],
            *[self.all_start] * 8 * bool(pending),
            *[self.one_exits] * 8 * bool(alive),
            *[self.one_is_done, self.one_is_evicted] * bool(alive),
            *[self.one_is_deleted] * bool(self.cluster.pods),
            *[self.one_restarts_in_place] * 4 * bool(crashed),
            *[self.one_is_gone, *[self.all_are_gone] * 6] * bool(leaving),
        ]

    # --- the controller ---

    def look(self, data: st.DataObject) -> None:
        self.cluster.come_to_rest()

    def look_in_vain(self, data: st.DataObject) -> None:
        """The write fails, the controller dies between two actions, or it sees what it saw before."""
        match data.draw(st.sampled_from(["write fails", "sees old pods", "dies", "dies"])):
            case "write fails":
                self.cluster.reconcile(status_fails=True)
            case "sees old pods":
                self.cluster.reconcile(lagging=True)
            case _:
                self.cluster.reconcile(crash_after=data.draw(st.integers(0, 4)))

    def nobody_looks(self, data: st.DataObject) -> None:
        pass

    # --- the kubelets ---

    def all_start(self, data: st.DataObject) -> None:
        for name in self.pending():
            self.cluster.start(name)

    def one_exits(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.alive()))
        code, reason = data.draw(st.sampled_from([(0, ""), (1, ""), (137, ""), (137, ""), (137, "OOMKilled")]))
        self.cluster.exit(name, code, reason)

    def one_is_done(self, data: st.DataObject) -> None:
        """A task that does not decide is done, that is seen, and somebody clears its pod away."""
        name = data.draw(st.sampled_from(self.alive()[-1:]))
        self.cluster.exit(name, 0)
        self.cluster.reconcile()
        if name in self.cluster.pods and data.draw(st.booleans()):
            self.cluster.removed(name)

    def one_restarts_in_place(self, data: st.DataObject) -> None:
        self.cluster.restart_in_place(data.draw(st.sampled_from(self.crashed())))

    def one_is_evicted(self, data: st.DataObject) -> None:
        self.cluster.evict(data.draw(st.sampled_from(self.alive())))

    def one_is_deleted(self, data: st.DataObject) -> None:
        self.cluster.someone_deletes(data.draw(st.sampled_from(sorted(self.cluster.pods))))

    def one_is_gone(self, data: st.DataObject) -> None:
        self.cluster.removed(data.draw(st.sampled_from(self.leaving())))

    def all_are_gone(self, data: st.DataObject) -> None:
        for name in self.leaving():
            self.cluster.removed(name)

    # --- the user and the clock ---

    def suspended_and_resumed(self, data: st.DataObject) -> None:
        self.cluster.suspend(True)
        for _ in range(data.draw(st.integers(0, 2))):
            self.cluster.reconcile()
        for name in self.leaving() if data.draw(st.booleans()) else ():
            self.cluster.removed(name)
        self.cluster.suspend(False)

    def scaled(self, data: st.DataObject) -> None:
        self.cluster.scale("Worker", data.draw(st.integers(1, 3)))

    def time_passes(self, data: st.DataObject) -> None:
        self.cluster.wait(data.draw(st.sampled_from([1, 5, 20, 400])))

    # --- who is in which state ---

    def pending(self) -> list[str]:
        return self._pods(lambda pod: pod.status.phase == "Pending" and not pod.metadata.deletion_timestamp)

    def alive(self) -> list[str]:
        return self._pods(is_alive)

    def crashed(self) -> list[str]:
        return self._pods(
            lambda pod: pod.status.phase == "Running" and not is_alive(pod) and not pod.metadata.deletion_timestamp
        )

    def leaving(self) -> list[str]:
        return self._pods(lambda pod: pod.metadata.deletion_timestamp is not None)

    def _pods(self, holds: Callable[[Any], Any]) -> list[str]:
        return sorted(name for name, pod in self.cluster.pods.items() if holds(pod))


def test_whatever_happens_the_invariants_hold_and_the_job_ends() -> None:
    run_state_machine_as_test(Machine, settings=BOUNDED)


class TakenOver(Machine):
    """A job that training-operator v1.9 has begun."""

    def arrive(self) -> None:
        self.cluster.come_to_rest()
        for name in self.pending():
            self.cluster.start(name)
        self.cluster.come_to_rest()
        self.cluster.left_by_v1_9()
        before = dict(self.cluster.pods)
        self.cluster.come_to_rest()
        assert self.cluster.pods == before, "taking a job over touches no pod"


def test_whatever_happens_to_a_job_of_v1_9_the_invariants_hold_and_the_job_ends() -> None:
    run_state_machine_as_test(TakenOver, settings=BOUNDED)


def under_volcano(owner: TFJob, seen: Observed, now: datetime) -> Plan:
    return plan(owner, seen, now, Settings(gang_scheduler="volcano"))


class Ganged(Machine):
    """A job whose pods a gang scheduler starts together."""

    decide = staticmethod(under_volcano)

    def arrive(self) -> None:
        self.cluster.gang_scheduled = True
        super().arrive()

    def possible(self) -> list[Event]:
        return [*super().possible(), *[self.admitted] * 8]

    def admitted(self, data: st.DataObject) -> None:
        self.cluster.admit()


def test_whatever_happens_under_a_gang_scheduler_the_invariants_hold_and_the_job_ends() -> None:
    run_state_machine_as_test(Ganged, settings=BOUNDED)


# --- plans with a fault -----------------------------------------------------------------------------------------------


def forgets_completion(owner: TFJob, seen: Observed, now: datetime) -> Plan:
    outcome = plan(replace(owner, status=replace(owner.status, completed_indexes={})), seen, now)
    finished = is_finished(outcome.status)
    return outcome if finished else _with(outcome, replace(outcome.status, completed_indexes={}))


def names_pods_after_their_attempt(owner: TFJob, seen: Observed, now: datetime) -> Plan:
    outcome = plan(owner, replace_pods(seen, lambda pod: pod.metadata.deletion_timestamp is None), now)
    return _with(outcome, outcome.status, [_renamed(owner, action) for action in outcome.actions])


def forgets_restarts_that_are_over(owner: TFJob, seen: Observed, now: datetime) -> Plan:
    outcome = plan(owner, seen, now)
    over = outcome.status.state == "Running"
    return _with(outcome, replace(outcome.status, restarts=0) if over else outcome.status)


def changes_its_mind_after_the_end(owner: TFJob, seen: Observed, now: datetime) -> Plan:
    if is_finished(owner.status) and seen.pods:
        return _with(plan(owner, seen, now), replace(owner.status, message="or was it?"))
    return plan(owner, seen, now)


def asks_again_and_again(owner: TFJob, seen: Observed, now: datetime) -> Plan:
    outcome = plan(owner, seen, now)
    leaving: list[Action] = [
        Delete("Pod", pod.metadata.name, pod.metadata.uid) for pod in seen.pods if pod.metadata.deletion_timestamp
    ]
    return _with(outcome, outcome.status, [*outcome.actions, *leaving])


def counts_its_passes(owner: TFJob, seen: Observed, now: datetime) -> Plan:
    outcome = plan(owner, seen, now)
    return _with(outcome, replace(outcome.status, observed_generation=owner.status.observed_generation + 1))


def ignores_the_backoff_limit(owner: TFJob, seen: Observed, now: datetime) -> Plan:
    run_policy = replace(owner.spec.run_policy, backoff_limit=None)
    return plan(replace(owner, spec=replace(owner.spec, run_policy=run_policy)), seen, now)


def deletes_before_it_records(owner: TFJob, seen: Observed, now: datetime) -> Plan:
    outcome = plan(owner, seen, now)
    if outcome.status.restarts > owner.status.restarts:
        return _with(outcome, owner.status)
    return outcome


def forgets_to_wake_up(owner: TFJob, seen: Observed, now: datetime) -> Plan:
    outcome = plan(owner, seen, now)
    return Plan(outcome.status, outcome.actions, outcome.news, None)


def succeeds_and_fails(owner: TFJob, seen: Observed, now: datetime) -> Plan:
    outcome = plan(owner, seen, now)
    if outcome.status.state != "Failed" or is_finished(owner.status):
        return outcome
    both = [*outcome.status.conditions, replace(outcome.status.conditions[-1], type="Succeeded")]
    return _with(outcome, replace(outcome.status, conditions=both))


FAULTY_PLANS = {
    names_pods_after_their_attempt: "no overlap",
    forgets_completion: "done stays done",
    forgets_restarts_that_are_over: "monotone",
    changes_its_mind_after_the_end: "final",
    succeeds_and_fails: "one end",
    counts_its_passes: "repeatable",
    asks_again_and_again: "rests",
    ignores_the_backoff_limit: "limit",
    deletes_before_it_records: "record first",
    forgets_to_wake_up: "ends",
}


@pytest.mark.parametrize(
    ("faulty", "invariant"), FAULTY_PLANS.items(), ids=lambda given: getattr(given, "__name__", given)
)
def test_the_machine_finds_a_plan_that(faulty: Decide, invariant: str) -> None:
    hunt(faulty, invariant)


def test_the_machine_finds_a_policy_that_makes_a_gang_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "gang_types", lambda _: frozenset())
    hunt(plan, "one generation")


def test_the_machine_finds_a_policy_that_keeps_old_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "is_stale", lambda *_: False)
    hunt(plan, "one generation")


def test_the_machine_finds_a_policy_that_counts_a_restart_in_place_at_every_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    genuine = memory._restarted_in_place

    def forgetful(owner: Any, status: Any, *given: Any) -> Any:
        return replace(genuine(owner, status, *given), task_restarts=status.task_restarts)

    monkeypatch.setattr(memory, "_restarted_in_place", forgetful)
    hunt(plan, "repeatable", [{"chief": 1, "worker": 1, "policy": "OnFailure"}])


def test_the_machine_finds_a_policy_that_lets_a_gang_restart_its_evaluator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "gang_types", lambda _: frozenset())
    hunt(plan, "bystanders", [{"chief": 1, "worker": 2, "evaluator": 1}])


def test_the_machine_finds_a_plan_that_does_not_wait_for_the_gang_scheduler() -> None:
    hunt(plan, "group first", kind=Ganged)


def test_every_invariant_has_a_fault_that_it_finds() -> None:
    assert {*FAULTY_PLANS.values(), "one generation", "bystanders", "group first"} == INVARIANTS.keys()


def hunt(
    faulty: Decide, invariant: str, shapes: Sequence[dict[str, Any]] = SHAPES, kind: type[Machine] = Machine
) -> None:
    """Runs the machine, with one invariant alone, on a faulty plan."""
    machine = type("Hunted", (kind,), {"decide": staticmethod(faulty), "only": invariant, "shapes": shapes})
    with pytest.raises(Violated, match=re.escape(INVARIANTS[invariant])):
        run_state_machine_as_test(machine, settings=HUNT)


def _with(outcome: Plan, status: Any, actions: Any = None) -> Plan:
    return Plan(status, outcome.actions if actions is None else actions, outcome.news, outcome.again_at)


def replace_pods(seen: Observed, holds: Callable[[Any], bool]) -> Observed:
    pods = [pod for pod in seen.pods if holds(pod)]
    return dataclasses.replace(seen, pods=pods)


def _renamed(owner: TFJob, action: Action) -> Action:
    if not isinstance(action, Create) or action.child.kind != "Pod":
        return action
    metadata = action.child.metadata
    name = f"{metadata.name}-{metadata.annotations['tfjob/attempt']}"
    return Create(replace(action.child, metadata=replace(metadata, name=name)))
