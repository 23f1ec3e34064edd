"""A load for an API server: many jobs at once, with pods that change their phase as kubelets would change it.

With `by_hand`, the load also creates the children and the status, without an operator: that is the floor, the limit of
the API server. Otherwise it creates only the jobs, and an operator does the rest.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tfjob.api.objects import Model, ObjectMeta, Pod
from tfjob.api.resources import NAMESPACES, PODS, SERVICES
from tfjob.api.types import TFJOBS
from tfjob.kube.access.errors import NotFound
from tfjob.kube.cache.reflector import Reflector
from tfjob.kube.cache.store import ObjectStore
from tfjob.kube.client.client import Client

SHAPE = {"Chief": 1, "Worker": 2, "PS": 1}
PODS_OF_A_JOB = sum(SHAPE.values())
AT_ONCE = 32
STARTED, ENDED = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"


class _Condition(Model, frozen=True):
    type: str = ""
    status: str = ""


class _Status(Model, frozen=True):
    conditions: list[_Condition] = []


class _Job(Model, frozen=True):
    metadata: ObjectMeta
    status: _Status = _Status()


@dataclass
class Result:
    """Seconds since the first request; latencies are per job."""

    jobs: int
    pods_made: float = 0.0
    all_done: float = 0.0
    create: list[float] = field(default_factory=list)
    """From a job's request to the last of its pods."""
    follow: list[float] = field(default_factory=list)
    """From the end of a chief to Succeeded in the status."""


def manifest(name: str, namespace: str) -> dict[str, Any]:
    """Return a job whose pods no scheduler handles; the load changes their phases."""
    template = {
        "spec": {
            "schedulerName": "none",
            "containers": [{"name": "tensorflow", "image": "x", "command": ["train"]}],
        }
    }
    replicas = {kind: {"replicas": n, "restartPolicy": "Never", "template": template} for kind, n in SHAPE.items()}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"tfReplicaSpecs": replicas},
    }


class Load:
    """Some jobs in a new namespace."""

    def __init__(self, client: Client, namespace: str, jobs: int, *, by_hand: bool) -> None:
        self.client = client
        self.namespace = namespace
        self.by_hand = by_hand
        self.result = Result(jobs)
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._begun = 0.0
        self._asked: dict[str, float] = {}
        self._pods: Counter[str] = Counter()
        self._running: Counter[str] = Counter()
        self._chief_ended: dict[str, float] = {}
        self._finished: set[str] = set()
        self._all_done = asyncio.Event()

    async def run(self, patience: float = 600.0) -> Result:
        """Create the jobs and wait for their end."""
        await self.client.create(NAMESPACES, "", {"metadata": {"name": self.namespace}})
        watches: list[Reflector[Any]] = [
            Reflector(self.client, PODS, _pods.decode, ObjectStore(on_change=self._pod_changed), self.namespace),
            Reflector(self.client, TFJOBS, _jobs.decode, ObjectStore(on_change=self._job_changed), self.namespace),
        ]
        followers = [asyncio.create_task(watch.run()) for watch in watches]
        for watch in watches:
            await watch.synced.wait()
        self._begun = time.perf_counter()
        await asyncio.gather(*(self._make(f"j{number:05d}") for number in range(self.result.jobs)))
        async with asyncio.timeout(patience):
            await self._all_done.wait()
        self.result.all_done = time.perf_counter() - self._begun
        for task in (*followers, *self._tasks):
            task.cancel()
        await asyncio.gather(*followers, *self._tasks, return_exceptions=True)
        return self.result

    async def _make(self, name: str) -> None:
        async with self._gate:
            self._asked[name] = time.perf_counter()
            await self.client.create(TFJOBS, self.namespace, manifest(name, self.namespace))
        if self.by_hand:
            children = [(kind, index) for kind, count in SHAPE.items() for index in range(count)]
            await asyncio.gather(*(self._make_child(name, kind, index) for kind, index in children))

    async def _make_child(self, job: str, kind: str, index: int) -> None:
        labels = {"job": job, "type": kind.lower(), "index": str(index)}
        metadata = {"name": f"{job}-{kind.lower()}-{index}", "labels": labels}
        template = manifest(job, self.namespace)["spec"]["tfReplicaSpecs"][kind]["template"]
        ports = [{"name": "tfjob-port", "port": 2222}]
        async with self._gate:
            await self.client.create(
                PODS, self.namespace, {"metadata": metadata, "spec": {**template["spec"], "restartPolicy": "Never"}}
            )
        async with self._gate:
            await self.client.create(
                SERVICES,
                self.namespace,
                {"metadata": metadata, "spec": {"clusterIP": "None", "selector": labels, "ports": ports}},
            )

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None or after is None:
            return
        job = after.metadata.name.split("-")[0]
        self._pods[job] += 1
        if self._pods[job] == PODS_OF_A_JOB:
            now = time.perf_counter()
            self.result.create.append(now - self._asked[job])
            self.result.pods_made = now - self._begun
        task = asyncio.create_task(self._start(job, after.metadata.name))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self, job: str, pod: str) -> None:
        """Set a pod to Running; when all pods of a job run, its chief succeeds."""
        await self._move(pod, "Running", {"running": {"startedAt": STARTED}})
        self._running[job] += 1
        if self._running[job] == PODS_OF_A_JOB:
            await self._move(f"{job}-chief-0", "Succeeded", {"terminated": {"exitCode": 0, "finishedAt": ENDED}})
            self._chief_ended[job] = time.perf_counter()
            if self.by_hand:
                conditions = [{"type": "Succeeded", "status": "True", "reason": "x", "message": "x"}]
                async with self._gate:
                    await self.client.patch(
                        TFJOBS, self.namespace, job, {"status": {"conditions": conditions}}, subresource="status"
                    )

    async def _move(self, pod: str, phase: str, state: dict[str, Any]) -> None:
        container = {"name": "tensorflow", "image": "x", "imageID": "x", "ready": phase == "Running", "restartCount": 0}
        status = {"phase": phase, "startTime": STARTED, "containerStatuses": [{**container, "state": state}]}
        async with self._gate:
            try:
                await self.client.patch(PODS, self.namespace, pod, {"status": status}, subresource="status")
            except NotFound:
                return

    def _job_changed(self, before: _Job | None, after: _Job | None) -> None:
        if after is None or after.metadata.name in self._finished:
            return
        if any(condition.type == "Succeeded" and condition.status == "True" for condition in after.status.conditions):
            name = after.metadata.name
            self._finished.add(name)
            self.result.follow.append(time.perf_counter() - self._chief_ended.get(name, time.perf_counter()))
            if len(self._finished) == self.result.jobs:
                self._all_done.set()


_pods = msgspec.json.Decoder(Pod)
_jobs = msgspec.json.Decoder(_Job)


def percentile(values: list[float], share: float) -> float:
    """Return the value below which this share of the values is."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else float("nan")
