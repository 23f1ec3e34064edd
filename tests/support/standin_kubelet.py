"""A kubelet's part for many jobs on a cluster without nodes: pods run, one of each job meets its fate, jobs end."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from support.pod_history import PodHistory
from support.room import JOB_NAME, Room, room
from tfjob.api.resources import PODS
from tfjob.api.types import TFJOBS
from tfjob.kube.access.errors import Conflict, NotFound
from tfjob.kube.jobs.jobs import read_job
from tfjob.plan.facts.tasks import ATTEMPT, attempts_due, desired, members

Object = dict[str, Any]
FINISHING = ("worker", "chief")
"""In that order; parameter servers and evaluators run for ever."""
EXIT_CODES = {"is killed": 137, "fails": 1}


class Kubelet:
    """Runs the pods of all jobs of a namespace: one of each job meets its fate, then those that finish do so."""

    def __init__(self, place: Room) -> None:
        self.place = place
        self.hour = 0
        """What whoever made it counts on, for jobs that wait."""
        self.fates: dict[str, tuple[str, str]] = {}
        self.hours: dict[str, tuple[int, int]] = {}
        self.struck: dict[str, str] = {}
        self.sizes: dict[str, int] = {}

    def expect(self, job: str, replicas: dict[str, int], task: str, fate: str, hours: tuple[int, int] = (0, 0)) -> None:
        """A job comes that has so many replicas; when all run, a task `is killed`, `is deleted` or `fails`.

        That happens not before the first of the two hours, and the end of what goes on not before the second.
        """
        self.hours[job], self.sizes[job] = hours, sum(replicas.values())
        self.fates[job] = (task, fate)

    def step(self) -> None:
        """Moves every pod that can go on."""
        jobs: dict[str, dict[str, Object]] = {}
        for pod in self.place.objects(PODS):
            name = pod["metadata"]["labels"][JOB_NAME]
            if name not in self.sizes:  # of somebody else, who used the namespace before
                continue
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
        strikes, ends = self.hours[name]
        uid = pods[task]["metadata"]["uid"]
        if name not in self.struck:
            if self.hour < strikes:
                return
            # A pod that no operator has seen, because none lived long enough, and that is gone is counted by nobody.
            started = members(self.place.status(name).get("started") or {})
            if task in {one.name for one in started}:
                self.struck[name] = uid
                self._strike(f"{name}-{task}", uid, fate)
        elif uid != self.struck[name] and self.hour >= ends:
            self._finish(name, pods)

    def _strike(self, pod: str, uid: str, fate: str) -> None:
        if fate == "is deleted":
            self.place.delete(PODS, pod)
        else:
            self.place.ends(pod, EXIT_CODES[fate], uid=uid)

    def _finish(self, name: str, pods: dict[str, Object]) -> None:
        for kind in FINISHING:
            left = {
                task: pod
                for task, pod in pods.items()
                if task.startswith(kind) and pod["status"]["phase"] != "Succeeded"
            }
            if left and self._are_due(name, pods):
                for task, pod in left.items():
                    self.place.ends(f"{name}-{task}", uid=pod["metadata"]["uid"])
            if left:
                return

    def _are_due(self, name: str, pods: dict[str, Object]) -> bool:
        """Whether all pods are of the attempt that their job is on: a chief that ends while a worker's pod is still the
        old one ends the job without that worker."""
        due = attempts_of(self.place, name)
        return all(int(pod["metadata"]["annotations"][ATTEMPT]) == due[task] for task, pod in pods.items())


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


def end_due(fate: str) -> Object:
    """What the status of a job says at its end, whose task met that fate."""
    return {"state": "Failed", "restarts": 0} if fate == "fails" else {"state": "Succeeded", "restarts": 1}


def assert_every_pod_is_recorded(place: Room, history: PodHistory, name: str) -> None:
    """Each task of a job has had one pod for each attempt that its status counts: none is doubled, none forgotten."""
    attempts = {task: list(range(1, due + 1)) for task, due in attempts_of(place, name).items()}
    assert history.attempts(name) == attempts, name


def attempts_of(place: Room, name: str) -> dict[str, int]:
    """The attempt that each task of a job is on, as its status says."""
    found = read_job("TFJob", msgspec.json.encode(place.get(TFJOBS, name)))
    due = attempts_due(found, found.status)
    return {task.name: due(task) for task in desired(found)}
