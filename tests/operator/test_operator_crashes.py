"""An operator that is killed at any moment: whoever comes next goes on, and no pod is ever doubled."""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGKILL
from typing import Any

import msgspec
import pytest

from devcluster.client import Client
from operating import OperatorProcess, operating
from pod_history import pod_history
from room import JOB_NAME, Room, job, room
from tfjob.kube.cached import decode_job, job_of
from tfjob.kube.errors import Conflict, NotFound
from tfjob.kube.resources import PODS, TFJOBS
from tfjob.plan.attempts import attempts_due
from tfjob.plan.tasks import desired, members

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
FINISHING = ("worker", "chief")
"""In that order; parameter servers and evaluators run for ever."""


class Kubelet:
    """Runs the pods of all jobs of a namespace: one of each job meets its fate, then those that finish do so."""

    def __init__(self, place: Room) -> None:
        self.place = place
        self.fates: dict[str, tuple[str, str]] = {}
        self.struck: dict[str, str] = {}
        self.sizes: dict[str, int] = {}

    def step(self) -> None:
        """Moves every pod that can go on."""
        jobs: dict[str, dict[str, Object]] = {}
        for pod in self.place.objects(PODS):
            name = pod["metadata"]["labels"][JOB_NAME]
            jobs.setdefault(name, {})[pod["metadata"]["name"].removeprefix(f"{name}-")] = pod
        for name, pods in jobs.items():
            # The operator may have been quicker.
            with suppress(NotFound, Conflict):
                self._step(name, pods)

    def _step(self, name: str, pods: dict[str, Object]) -> None:
        for pod in pods.values():
            if pod["status"]["phase"] == "Pending":
                self.place.runs(pod["metadata"]["name"], uid=pod["metadata"]["uid"])
        up = [task for task, pod in pods.items() if pod["status"]["phase"] in ("Running", "Succeeded")]
        if len(up) < self.sizes[name]:
            return
        task, fate = self.fates[name]
        uid = pods[task]["metadata"]["uid"]
        if name not in self.struck:
            # A pod that no operator has seen, because none lived long enough, and that is gone is counted by nobody.
            started = members(self.place.status(name).get("started") or {})
            if task in {one.name for one in started}:
                self.struck[name] = uid
                self._strike(f"{name}-{task}", uid, fate)
        elif uid != self.struck[name]:
            self._finish(name, pods)

    def _strike(self, pod: str, uid: str, fate: str) -> None:
        if fate == "is killed":
            self.place.ends(pod, 137, uid=uid)
        else:
            self.place.delete(PODS, pod)

    def _finish(self, name: str, pods: dict[str, Object]) -> None:
        for kind in FINISHING:
            left = {
                task: pod
                for task, pod in pods.items()
                if task.startswith(kind) and pod["status"]["phase"] != "Succeeded"
            }
            for task, pod in left.items():
                self.place.ends(f"{name}-{task}", uid=pod["metadata"]["uid"])
            if left:
                return


@contextmanager
def kubelet(kubeconfig: Path, namespace: str) -> Iterator[Kubelet]:
    """A kubelet at work in a thread of its own."""
    ended, begun, faults = threading.Event(), threading.Event(), list[BaseException]()
    found: list[Kubelet] = []

    def run() -> None:
        try:
            with room(kubeconfig, namespace) as place:
                found.append(Kubelet(place))
                begun.set()
                while not ended.wait(0.05):
                    found[0].step()
        except BaseException as error:
            traceback.print_exc()
            faults.append(error)
            begun.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert begun.wait(60)
        yield found[0]
    finally:
        ended.set()
        thread.join()
    assert not faults, faults


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
                node.fates[name], node.sizes[name] = (task, fate), sum(replicas.values())
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
            found = job_of(decode_job(msgspec.json.encode(quiet_room.get(TFJOBS, name))))
            due = attempts_due(found, found.status)
            assert history.counts(name) == {task.name: due(task) for task in desired(found)}, name
            assert found.status.restarts == 1, name
