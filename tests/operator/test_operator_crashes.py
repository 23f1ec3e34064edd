"""An operator that is killed at any moment: whoever comes next goes on, and no pod is ever doubled."""

from __future__ import annotations

import random
import time
from signal import SIGKILL
from typing import Any

import pytest

from devcluster.client import Client
from operating import OperatorProcess, operating
from pod_history import pod_history
from room import Room, job
from standin_kubelet import assert_every_pod_is_recorded, kubelet

Object = dict[str, Any]
SHAPES: tuple[tuple[Object, str, str], ...] = (
    ({"chief": 1, "ps": 1, "worker": 2}, "worker-1", "is killed"),
    ({"chief": 1, "worker": 2}, "chief-0", "is killed"),
    ({"chief": 1, "worker": 1, "evaluator": 1}, "worker-0", "is deleted"),
    ({"chief": 1, "ps": 2}, "ps-1", "is deleted"),
    ({"worker": 1}, "worker-0", "is killed"),
)
"""Jobs, and what happens to one of their tasks on its first attempt."""
AT_ONCE = 8


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kills", [4, pytest.param(60, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_an_operator_killed_at_any_moment_loses_nothing_and_doubles_no_pod(
    control_plane: Client, quiet_room: Room, kills: int
) -> None:
    seed = time.time_ns()
    print(f"seed {seed}")
    chance = random.Random(seed)
    config, place = control_plane.kubeconfig, quiet_room.namespace
    names: list[str] = []

    with pod_history(control_plane, place) as history, kubelet(config, place) as node:

        def add() -> None:
            """Two more jobs, unless many are under way already."""
            done = sum(quiet_room.status(name).get("state") == "Succeeded" for name in names)
            for _ in range(2 if len(names) - done < AT_ONCE else 0):
                replicas, task, fate = SHAPES[len(names) % len(SHAPES)]
                name = f"crash-{kills}-{len(names)}"
                node.expect(name, replicas, task, fate)
                names.append(name)
                quiet_room.create(job(name, policy="ExitCode", **replicas))

        for _ in range(kills):
            add()
            operator = OperatorProcess(config, f"--namespace={place}")
            try:
                operator.wait_for("controller starting")
                time.sleep(chance.uniform(0, 1.0))
            finally:
                assert operator.end(SIGKILL) == -SIGKILL
        add()
        with operating(config, f"--namespace={place}"):
            for name in names:
                quiet_room.until(name, "Succeeded")

        for name in names:
            assert_every_pod_is_recorded(quiet_room, history, name)
            assert quiet_room.status(name)["restarts"] == 1, name
