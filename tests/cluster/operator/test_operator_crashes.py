"""An operator that is killed at any moment: whoever comes next goes on, and no pod is ever doubled.

`pytest tests/cluster/operator/test_operator_crashes.py --long --scale 1 --seed N` kills it two hundred times while a
hundred jobs run.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from devcluster.client import Client
from support.audit import was_accepted, writes_by
from support.long_form import Scaled
from support.operating import READY, OperatorProcess, known_as, operating
from support.pod_history import pod_history
from support.room import PATIENCE, Room, job
from support.standin_kubelet import assert_every_pod_is_recorded, end_due, kubelet
from tfjob.api.types import TFJOBS

pytestmark = pytest.mark.faults

Object = dict[str, Any]
NO_GRACE = {"evaluatorGraceSeconds": 0}
"""The evaluators of these jobs never exit."""
SHAPES: tuple[tuple[Object, str, str], ...] = (
    ({"chief": 1, "ps": 1, "worker": 2}, "worker-1", "is killed"),
    ({"chief": 1, "worker": 2}, "chief-0", "is killed"),
    ({"chief": 1, "worker": 1, "evaluator": 1}, "worker-0", "is deleted"),
    ({"chief": 1, "ps": 2}, "ps-1", "is deleted"),
    ({"worker": 1}, "worker-0", "is killed"),
    ({"worker": 1}, "worker-0", "fails"),
    ({"chief": 1, "ps": 1}, "chief-0", "fails"),
)
"""Jobs, and what happens to one of their tasks on its first attempt."""
STARTING_SECONDS, WORKING_SECONDS = 2.0, 1.0
"""The longest lives of an operator that is killed while it starts, and from when it works."""
STARTING = 0.15
"""The part of them that is killed while it starts, but at least one."""


def live(operator: OperatorProcess, known: str, place: Room, chance: random.Random, *, at_work: bool) -> None:
    """Waits until an operator is to be killed; one that is to be killed at work has written a status before."""
    if not at_work:
        time.sleep(chance.uniform(0, STARTING_SECONDS))
    else:
        operator.wait_for(READY)
        place.create(job(known, run_policy={"suspend": True}, worker=1))
        place.until(known, "Suspended")
        place.delete(TFJOBS, known)
        time.sleep(chance.uniform(0, WORKING_SECONDS))


@pytest.mark.parametrize(
    "form",
    [
        pytest.param("short", marks=pytest.mark.timeout(400)),
        pytest.param("long", marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
    ],
)
def test_an_operator_killed_at_any_moment_loses_nothing_and_doubles_no_pod(
    control_plane: Client, quiet_room: Room, tmp_path: Path, seed: int, scaled: Scaled, form: str
) -> None:
    kills, jobs = (4, 8) if form == "short" else (scaled(200), scaled(100))
    chance, begun = random.Random(seed), time.monotonic()
    place, fates = quiet_room.namespace, dict[str, str]()
    with pod_history(control_plane, place) as history, kubelet(control_plane.kubeconfig, place) as node:
        for number in range(jobs):
            replicas, task, fate = SHAPES[number % len(SHAPES)]
            name = f"crash-{kills}-{number}"
            # All run from the beginning; what happens to them is spread over the kills.
            strikes, ends = sorted(chance.randrange(kills) for _ in range(2))
            fates[name] = fate
            node.expect(name, replicas, task, fate, (strikes, ends))
            quiet_room.create(job(name, policy="ExitCode", run_policy=NO_GRACE, **replicas))

        killed = [f"{place}-{number}" for number in range(kills)]
        starting = set(chance.sample(killed, max(1, round(STARTING * kills))))
        for node.hour, known in enumerate(killed):
            operator = OperatorProcess(known_as(known, control_plane.kubeconfig, tmp_path), f"--namespace={place}")
            try:
                live(operator, known, quiet_room, chance, at_work=known not in starting)
            finally:
                assert operator.end(SIGKILL) == -SIGKILL
        under_fire = time.monotonic() - begun
        with operating(control_plane.kubeconfig, f"--namespace={place}"):
            for name, fate in fates.items():
                quiet_room.until(name, timeout=2 * PATIENCE, **end_due(fate))

        for name in fates:
            assert_every_pod_is_recorded(quiet_room, history, name)
    print(f"{kills} kills in {under_fire:.0f} s, {jobs} jobs, {len(history.lives)} pods: none doubled, none lost")
    if control_plane.folder is None:
        return
    writes = list(control_plane.writes())
    at_work = {known for known in killed if any(map(was_accepted, writes_by(known, writes)))}
    print(f"{len(at_work)} of the killed operators had written something")
    assert at_work >= set(killed) - starting, "what is killed before it does anything proves little"
