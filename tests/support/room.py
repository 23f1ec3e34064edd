"""A namespace of a real API server as a test sees and changes it: jobs, and their pods as a kubelet would move them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from support.running import wait_until
from tfjob.api.resources import CORE_EVENTS, PODS, SERVICES, Resource
from tfjob.api.types import TFJOBS
from tfjob.kube.access import config
from tfjob.kube.access.errors import NotFound
from tfjob.kube.client.client import Client

Object = dict[str, Any]
JOB_NAME = "training.kubeflow.org/job-name"
PATIENCE = 90.0
"""Seconds that anything may take on a machine that does much else."""


class Room:
    """One namespace."""

    def __init__(self, runner: asyncio.Runner, client: Client, namespace: str) -> None:
        self.namespace = namespace
        self.client = client
        self._runner = runner

    # --- jobs -------------------------------------------------------------------------------------------------------

    def create(self, *objects: Object) -> None:
        """Makes jobs, or whatever else, in this namespace."""
        for one in objects:
            self.make(RESOURCES[one["kind"]], one)

    def make(self, resource: Resource, body: Object) -> Object:
        """Makes an object of any kind."""
        answer = self.do(lambda: self.client.create(resource, self.namespace, body))
        made: Object = msgspec.json.decode(answer)
        return made

    def edit(self, name: str, **spec: Any) -> None:
        """Changes the spec of a job."""
        self.patch(TFJOBS, name, {"spec": spec})

    def patch(self, resource: Resource, name: str, changes: Object) -> None:
        """Changes an object of any kind."""
        self.do(lambda: self.client.patch(resource, self.namespace, name, changes))

    def write_status(self, name: str, status: Object, resource: Resource = TFJOBS) -> None:
        """Writes the status of a job, or of another object, as another controller would."""
        self.do(lambda: self.client.patch(resource, self.namespace, name, {"status": status}, subresource="status"))

    def delete(self, resource: Resource, name: str, propagation: str = "Background") -> None:
        """Deletes an object."""
        self.do(lambda: self.client.delete(resource, self.namespace, name, propagation=propagation))  # type: ignore[arg-type]

    def find(self, resource: Resource, name: str) -> Object | None:
        """An object, if there is one."""
        try:
            found: Object = self.do(lambda: self.client.get(resource, self.namespace, name))
        except NotFound:
            return None
        return found

    def get(self, resource: Resource, name: str) -> Object:
        """An object that must be there."""
        found = self.find(resource, name)
        assert found is not None, f"no {resource.plural} {name}"
        return found

    def status(self, name: str) -> Object:
        """The status of a job; of none, nothing."""
        status: Object = (self.find(TFJOBS, name) or {}).get("status") or {}
        return status

    def until(self, name: str, state: str = "", *, timeout: float = PATIENCE, **expected: Any) -> Object:
        """Waits until the status of a job has these values, and returns it."""
        wanted = {**({"state": state} if state else {}), **expected}
        return self.until_status(
            name, lambda status: all(status.get(key) == value for key, value in wanted.items()), timeout
        )

    def until_status(self, name: str, holds: Callable[[Object], bool], timeout: float = PATIENCE) -> Object:
        """Waits until something holds for the status of a job, and returns it."""
        seen: list[Object] = [{}]

        def look() -> bool:
            seen[0] = self.status(name)
            return holds(seen[0])

        wait_until(look, timeout, lambda: f"{name}: {seen[0]}")
        return seen[0]

    # --- children ---------------------------------------------------------------------------------------------------

    def pods(self, job: str) -> dict[str, Object]:
        """The pods of a job by the rest of their name, such as `worker-0`."""
        return self.children(PODS, job)

    def services(self, job: str) -> dict[str, Object]:
        """The services of a job, likewise."""
        return self.children(SERVICES, job)

    def children(self, resource: Resource, job: str) -> dict[str, Object]:
        """The labelled objects of a job."""
        found = self.objects(resource, f"{JOB_NAME}={job}")
        return {one["metadata"]["name"].removeprefix(f"{job}-"): one for one in found}

    def objects(self, resource: Resource, label_selector: str = "") -> list[Object]:
        """All objects of a kind."""
        listing = self.do(lambda: self.client.list(resource, self.namespace, label_selector=label_selector, type=dict))
        return list(listing.items)

    def uids(self, job: str) -> dict[str, str]:
        """Which pods a job has."""
        return {name: pod["metadata"]["uid"] for name, pod in self.pods(job).items()}

    def until_pods(self, job: str, *names: str, timeout: float = PATIENCE) -> dict[str, Object]:
        """Waits until a job has exactly these pods."""
        seen: list[dict[str, Object]] = [{}]

        def look() -> bool:
            seen[0] = self.pods(job)
            return set(seen[0]) == set(names)

        wait_until(look, timeout, lambda: f"{job} has {sorted(seen[0])}, status {self.status(job)}")
        return seen[0]

    def events(self, job: str) -> list[Object]:
        """The Events about a job, oldest first."""
        found = [one for one in self.objects(CORE_EVENTS) if one["involvedObject"]["name"] == job]
        return sorted(found, key=lambda one: int(one["metadata"]["resourceVersion"]))

    def until_event(self, job: str, reason: str) -> Object:
        """Waits for an Event about a job."""
        wait_until(
            lambda: any(one["reason"] == reason for one in self.events(job)),
            PATIENCE,
            lambda: f"no {reason} among {[one['reason'] for one in self.events(job)]}",
        )
        return next(one for one in self.events(job) if one["reason"] == reason)

    # --- the kubelet ------------------------------------------------------------------------------------------------

    def runs(self, *pods: str, uid: str = "") -> None:
        """The container of each pod has started."""
        for pod in pods:
            self._move(pod, "Running", {"running": {"startedAt": now()}}, uid)

    def ends(self, pod: str, code: int = 0, uid: str = "", **terminated: Any) -> None:
        """The container of a pod has exited; with a uid, only if the pod is still that one."""
        before = self.get(PODS, pod)["status"].get("containerStatuses") or [{}]
        started = before[0].get("state", {}).get("running", {}).get("startedAt") or now()
        reason = "Error" if code else "Completed"
        state = {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now(), **terminated}
        self._move(pod, "Failed" if code else "Succeeded", {"terminated": state}, uid)

    def restarts_in_place(self, pod: str, code: int, count: int) -> None:
        """The kubelet has started the container of a pod again."""
        ended = {"terminated": {"exitCode": code, "startedAt": now(), "finishedAt": now()}}
        self._move(pod, "Running", {"running": {"startedAt": now()}}, lastState=ended, restartCount=count)

    def waits(self, pod: str, reason: str, message: str = "") -> None:
        """A node cannot start the container of a pod."""
        self._move(pod, "Pending", {"waiting": {"reason": reason, "message": message}})

    def all_run(self, job: str, *names: str) -> None:
        """Waits for the pods of a job, and lets them run until the job does."""
        self.until_pods(job, *names)
        self.runs(*(f"{job}-{name}" for name in names))
        self.until(job, "Running", ready=f"{len(names)}/{len(names)}")

    def release(self, pod: str) -> None:
        """Takes the finalizers of a pod away, so that it can go."""
        self.patch(PODS, pod, {"metadata": {"finalizers": None}})

    def _move(self, pod: str, phase: str, state: Object, uid: str = "", **container: Any) -> None:
        entry = {"name": "tensorflow", "image": "x", "imageID": "", "ready": "running" in state, "restartCount": 0}
        status = {
            "phase": phase,
            "startTime": now(),
            "conditions": [{"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [{**entry, "state": state, **container}],
        }
        changes = {"status": status, **({"metadata": {"uid": uid}} if uid else {})}
        self.do(lambda: self.client.patch(PODS, self.namespace, pod, changes, subresource="status"))

    def do(self, request: Callable[[], Any]) -> Any:
        """Waits for what a request answers."""

        async def done() -> Any:
            return await request()

        return self._runner.run(done())


RESOURCES = {one.kind: one for one in (TFJOBS, PODS, SERVICES)}


@contextmanager
def room(kubeconfig: Path, namespace: str) -> Iterator[Room]:
    """A namespace of the cluster that a kubeconfig names."""
    with asyncio.Runner() as runner:
        client = Client(config.load(environ={"KUBECONFIG": str(kubeconfig)}))
        runner.run(client.__aenter__())
        try:
            yield Room(runner, client, namespace)
        finally:
            runner.run(client.__aexit__())


def job(
    name: str, *, policy: str = "", run_policy: Object | None = None, spec: Object | None = None, **replicas: Any
) -> Object:
    """A TFJob: `job("mnist", chief=1, worker=2, policy="ExitCode")`; a replica may also be its spec in full."""
    specs = {kind: _replica(count, policy) for kind, count in replicas.items()}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {"tfReplicaSpecs": specs, **({"runPolicy": run_policy} if run_policy else {}), **(spec or {})},
    }


def template(**pod: Any) -> Object:
    """A pod template with one container; more fields of the pod, and `metadata` of the template, as given."""
    metadata = pod.pop("metadata", None)
    container = {"name": "tensorflow", "image": "example.com/train:1", **pod.pop("container", {})}
    return {**({"metadata": metadata} if metadata else {}), "spec": {"containers": [container], **pod}}


def now(seconds: float = 0) -> str:
    """The time as Kubernetes writes it, or so many seconds from it."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _replica(count: Any, policy: str) -> Object:
    if isinstance(count, dict):
        return {"template": template(), **count}
    return {"replicas": count, "template": template(), **({"restartPolicy": policy} if policy else {})}
