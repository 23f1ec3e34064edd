from __future__ import annotations

from typing import Any

import pytest

from support.golden import Wording
from support.plan.builders import job, task
from tfjob.api.types import ChiefReference, TerminationPolicy
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
