"""Whatever happens to a job, in whatever order: some things never happen, and in the end it ends.

A seed stands for fifty sequences of events: `pytest --seed 123 tests/unit/plan/test_plan_state_machine.py` repeats
those of one seed, `--long --scale 1` runs the ten thousand of two hundred seeds. What happens is in
`model_machine`, what never may in `model_invariants`, and in `model_mutants` are plans with a fault each, which the
machine must find; these prove the machine and not the plan, so they are part of the long form.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from msgspec.structs import replace

from support.long_form import Scaled
from support.plan.model_cluster import Decide
from support.plan.model_invariants import INVARIANTS, Violated
from support.plan.model_machine import SHAPES, Ganged, Machine, TakenOver
from support.plan.model_mutants import FAULTY_PLANS
from tfjob.plan import record, replicas
from tfjob.plan.facts import tasks
from tfjob.plan.plan import plan

pytestmark = pytest.mark.faults

SEQUENCES = 50
"""Of one seed."""
SEEDS, PARTS = 200, 4
"""Of the long form, and the tests among which it divides them, so that they can run at once."""
BOUNDED = settings(
    max_examples=SEQUENCES,
    stateful_step_count=30,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
HUNT = settings(BOUNDED, max_examples=400, derandomize=True, phases=[Phase.generate], print_blob=False)
EVENTS = {
    "submit",
    *("all_start", "one_must_wait", "one_is_turned_away", "one_exits", "one_is_killed", "one_is_oom_killed"),
    *("one_is_done", "one_restarts_in_place", "one_is_evicted", "one_is_preempted"),
    *("one_is_deleted", "one_vanishes", "one_is_gone", "all_are_gone", "a_deletion_is_cut_short"),
    *("node_is_lost_or_back", "refusals_begin_or_end"),
    *("suspended", "resumed", "scaled", "deleted", "made_again", "time_passes"),
    *("look", "nobody_looks", "the_write_fails", "it_sees_old_pods", "it_starts_again"),
    *("it_dies_after_its_write", "it_acts_partly", "it_acts_twice"),
}
"""By the names of their methods."""


@pytest.fixture(
    params=["one seed", *(pytest.param(part, marks=pytest.mark.long, id=f"part {part}") for part in range(PARTS))],
)
def seeds(request: pytest.FixtureRequest, seed: int, scaled: Scaled) -> Sequence[int]:
    """Return one seed for CI, and for the long form a part of its seeds; counted from the one that was given."""
    if request.param == "one seed":
        return [seed]
    count = scaled(SEEDS // PARTS)
    return range(seed + request.param * count, seed + (request.param + 1) * count)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [Machine, TakenOver, Ganged])
def test_whatever_happens_the_invariants_hold_and_the_job_ends(kind: type[Machine], seeds: Sequence[int]) -> None:
    """To a job of ours, to one that training-operator v1.9 has begun, and to one that a gang scheduler starts."""
    happened = Counter[str]()
    machine = type(kind.__name__, (kind,), {"happened": happened})
    for seed in seeds:
        try:
            run_state_machine_as_test(hypothesis.seed(seed)(machine), settings=BOUNDED)
        except BaseException as error:
            error.add_note(f"again by: pytest --seed {seed} tests/unit/plan/test_plan_state_machine.py")
            raise
    assert happened["submit"] >= SEQUENCES * len(seeds)
    # In fifty sequences one or the other may be missing, in five hundred none.
    assert len(EVENTS - happened.keys()) <= (2 if len(seeds) < 10 else 0), f"missing: {EVENTS - happened.keys()}"


@pytest.mark.long
@pytest.mark.parametrize(
    ("faulty", "invariant"), FAULTY_PLANS.items(), ids=lambda given: getattr(given, "__name__", given)
)
def test_the_machine_finds_a_plan_that(faulty: Decide, invariant: str) -> None:
    hunt(faulty, invariant)


@pytest.mark.long
def test_the_machine_finds_a_policy_that_makes_a_gang_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "gang_types", lambda _: frozenset())
    hunt(plan, "one generation")


@pytest.mark.long
def test_the_machine_finds_a_policy_that_keeps_old_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "is_stale", lambda *_: False)
    hunt(plan, "one generation")


@pytest.mark.long
def test_the_machine_finds_a_policy_that_counts_a_restart_in_place_at_every_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    genuine = record._restarted_in_place

    def forgetful(owner: Any, status: Any, *given: Any) -> Any:
        return replace(genuine(owner, status, *given), task_restarts=status.task_restarts)

    monkeypatch.setattr(record, "_restarted_in_place", forgetful)
    hunt(plan, "repeatable", [{"chief": 1, "worker": 1, "policy": "OnFailure"}])


@pytest.mark.long
def test_the_machine_finds_a_policy_that_lets_a_gang_restart_its_evaluator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "gang_types", lambda _: frozenset())
    hunt(plan, "bystanders", [{"chief": 1, "worker": 2, "evaluator": 1}])


@pytest.mark.long
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
