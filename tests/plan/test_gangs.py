from __future__ import annotations

from typing import Any

import pytest

from plan.builders import job
from tfjob.api.dialect import BATCH
from tfjob.plan.facts.tasks import gang


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
