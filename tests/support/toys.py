"""Two toy kinds that show what a kind needs: a server that keeps one pod up, and a batch whose children are TFJobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from tfjob.api.objects import Model, ObjectMeta, OwnerReference, Pod
from tfjob.api.problems import Problem
from tfjob.api.resources import Resource
from tfjob.api.types import ReplicaSpec, TFJob, TFJobSpec
from tfjob.controller.actions import Create, Delete, Event
from tfjob.controller.kind import Invalid, Observation, Plan, Stored


class ToyStatus(Model, frozen=True):
    state: str = ""
    reason: str = ""
    message: str = ""
    restarts: int = 0


class Toy(Model, frozen=True, omit_defaults=False):
    api_version: str = "toys.example/v1"
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: ToyStatus = ToyStatus()


class ToyKind:
    """What both have in common."""

    owner_type = Toy
    name_label = ""
    resource: Resource
    children: tuple[type[Any], ...]

    def decode(self, stored: Stored) -> Any:
        spec = msgspec.json.decode(stored.spec)
        status = msgspec.json.decode(stored.status, type=ToyStatus)
        toy = self.owner_type(kind=stored.kind, metadata=stored.metadata, spec=spec, status=status)
        if "template" not in spec:
            raise Invalid(toy, [Problem("spec.template", "is missing")])
        return toy

    def reject(self, owner: Toy, observed: Observation, problems: Sequence[Problem], now: datetime) -> Plan[ToyStatus]:
        return Plan(replace(owner.status, state="Failed", reason="InvalidSpec", message=problems[0].path))

    def is_finished(self, owner: Toy) -> bool:
        return owner.status.state in ("Succeeded", "Failed")

    def encode_status(self, owner: Toy) -> ToyStatus:
        return owner.status

    def expected(self, owner: Toy) -> frozenset[str]:
        return frozenset()

    def child_metadata(self, owner: Toy, number: int) -> ObjectMeta:
        name, uid = owner.metadata.name, owner.metadata.uid
        reference = OwnerReference(
            api_version="toys.example/v1", kind=self.resource.kind, name=name, uid=uid, controller=True
        )
        return ObjectMeta(name=f"{name}-{number}", namespace=owner.metadata.namespace, owner_references=[reference])


class Server(Toy, frozen=True):
    pass


class ServerKind(ToyKind):
    """Keeps one pod running."""

    resource = Resource("toys.example", "v1", "servers", "Server")
    owner_type = Server
    children = (Pod,)

    def plan(self, owner: Server, observed: Observation, now: datetime) -> Plan[ToyStatus]:
        status, pods = owner.status, observed.of(Pod)
        ended = [one for one in pods if one.status.phase in ("Succeeded", "Failed")]
        if gone := [one for one in ended if one.metadata.deletion_timestamp is None]:
            status = replace(status, state="Restarting", restarts=status.restarts + 1)
            events = [Event("Restarted", f"{one.metadata.name} ended") for one in gone]
            return Plan(status, [Delete("Pod", one.metadata.name, one.metadata.uid) for one in gone], events)
        if not pods:
            pod = Pod(metadata=self.child_metadata(owner, status.restarts), spec=owner.spec["template"])
            return Plan(replace(status, state="Pending"), [Create(pod)])
        running = any(one.status.phase == "Running" for one in pods)
        return Plan(replace(status, state="Running") if running else status)


class Batch(Toy, frozen=True):
    pass


class BatchKind(ToyKind):
    """Runs TFJobs of one worker, some at a time: `count` in all, `parallel` at once."""

    resource = Resource("toys.example", "v1", "batches", "Batch")
    owner_type = Batch
    children = (TFJob,)

    def plan(self, owner: Batch, observed: Observation, now: datetime) -> Plan[ToyStatus]:
        count, jobs = owner.spec["count"], observed.of(TFJob)
        done = sum(one.status.state in ("Succeeded", "Failed") for one in jobs)
        state = "Succeeded" if done == count else "Running"
        status = replace(owner.status, state=state, message=f"{done}/{count}")
        free = min(owner.spec["parallel"] - (len(jobs) - done), count - len(jobs))
        return Plan(status, [Create(self.job(owner, len(jobs) + number)) for number in range(free)])

    def job(self, owner: Batch, number: int) -> TFJob:
        worker = ReplicaSpec(replicas=1, template={"spec": owner.spec["template"]})
        return TFJob(metadata=self.child_metadata(owner, number), spec=TFJobSpec(tf_replica_specs={"Worker": worker}))
