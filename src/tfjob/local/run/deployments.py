"""Deployments as a kind of this machine's loop; on a cluster, Kubernetes runs them.

The pods belong to the Deployment itself: there are no ReplicaSets, and the label `pod-template-hash` tells the pods of
the present template from older ones. A rollout follows the rules of Kubernetes: at most `maxSurge` pods too many, at
most `maxUnavailable` available pods too few. Containers that end are restarted by the kubelet of this machine; a pod
that has failed as a whole is replaced.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count, islice
from typing import Any

import msgspec
from msgspec.structs import replace

from tfjob.api.deployments import is_recreated, limits, problems
from tfjob.api.objects import Deployment, DeploymentStatus, ObjectMeta, OwnerReference, Pod, PodCondition
from tfjob.api.problems import Problem, errors
from tfjob.api.resources import DEPLOYMENTS
from tfjob.controller.actions import Action, Create, Delete, Event
from tfjob.controller.kind import SUSPEND_REASON, Invalid, Observation, Plan, Stored

TEMPLATE_HASH = "pod-template-hash"
"""Label of a pod: the hash of its template."""
LONGEST_PREFIX = 46
"""Longest part of a Deployment's name in the names of its pods, which are host names of at most 63 characters."""
TRUE, FALSE = "True", "False"
AVAILABLE, PROGRESSING, SUSPENDED = "Available", "Progressing", "Suspended"
NOT_READY, CRASH_LOOP = "NotReady", "CrashLoopBackOff"


class DeploymentKind:
    """Deployments of this machine."""

    resource = DEPLOYMENTS
    owner_type = Deployment
    name_label = ""
    children = (Pod,)

    def decode(self, stored: Stored) -> Deployment:
        spec = msgspec.json.decode(stored.spec)
        status = msgspec.json.decode(stored.status, type=DeploymentStatus)
        deployment = Deployment(metadata=stored.metadata, spec=spec, status=status)
        if found := errors(problems(spec)):
            raise Invalid(deployment, found)
        return deployment

    def plan(self, owner: Deployment, observed: Observation, now: datetime) -> Plan[DeploymentStatus]:
        if owner.metadata.deletion_timestamp is not None:
            return Plan(owner.status)
        fleet = _Fleet.of(owner, observed.of(Pod), now)
        status = _status(owner, fleet, now)
        return Plan(status, fleet.actions(owner), _events(owner.status, status), again_at=fleet.again_at)

    def reject(
        self, owner: Deployment, observed: Observation, problems: Sequence[Problem], now: datetime
    ) -> Plan[DeploymentStatus]:
        """Leave the pods alone until the spec is corrected, unless the Deployment is suspended."""
        text = "; ".join(f"{problem.path}: {problem.message}" for problem in problems)
        pods = observed.of(Pod) if SUSPEND_REASON in owner.metadata.annotations else []
        progressing = _condition(owner.status, PROGRESSING, FALSE, "InvalidSpec", text, now)
        others = [one for one in owner.status.conditions if one.type != PROGRESSING]
        return Plan(replace(owner.status, conditions=[*others, progressing]), _deletions(pods))

    def is_finished(self, owner: Deployment) -> bool:
        return False

    def encode_status(self, owner: Deployment) -> DeploymentStatus:
        return owner.status

    def expected(self, owner: Deployment) -> Set[str]:
        return frozenset()

    def suspended(self, owner: Deployment, reason: str) -> Deployment:
        """Return the Deployment annotated with the reason; it has no pods until the annotation is removed."""
        annotations = {SUSPEND_REASON: reason, **owner.metadata.annotations}
        return replace(owner, metadata=replace(owner.metadata, annotations=annotations))


def resumed(owner: Deployment) -> Deployment:
    annotations = {name: value for name, value in owner.metadata.annotations.items() if name != SUSPEND_REASON}
    return replace(owner, metadata=replace(owner.metadata, annotations=annotations))


def template_hash(template: Mapping[str, Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(template, order="sorted")).hexdigest()[:8]


@dataclass(frozen=True)
class _Fleet:
    """The pods of a Deployment, grouped for a rollout; each list has the oldest pod first."""

    wanted: int
    hash: str
    new: list[Pod]
    """Pods of the present template that are not being deleted and have not ended."""
    old: list[Pod]
    """Pods of older templates that are not being deleted and have not ended."""
    ended: list[Pod]
    """Pods that have ended as a whole and are not being deleted yet."""
    all: list[Pod]
    available: frozenset[str]
    """Uids of pods that have been ready for `minReadySeconds`."""
    again_at: datetime | None
    """When the next ready pod becomes available."""

    @classmethod
    def of(cls, owner: Deployment, pods: list[Pod], now: datetime) -> _Fleet:
        present = template_hash(owner.spec["template"])
        staying = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
        live = [pod for pod in staying if pod.status.phase not in ("Succeeded", "Failed")]
        wait = timedelta(seconds=owner.spec.get("minReadySeconds") or 0)
        due = {pod.metadata.uid: since + wait for pod in live if (since := _ready_since(pod))}
        return cls(
            wanted=0 if SUSPEND_REASON in owner.metadata.annotations else owner.wanted_replicas,
            hash=present,
            new=[pod for pod in live if pod.metadata.labels.get(TEMPLATE_HASH) == present],
            old=[pod for pod in live if pod.metadata.labels.get(TEMPLATE_HASH) != present],
            ended=[pod for pod in staying if pod not in live],
            all=pods,
            available=frozenset(uid for uid, when in due.items() if when <= now),
            again_at=min((when for when in due.values() if when > now), default=None),
        )

    def is_available(self, pod: Pod) -> bool:
        return pod.metadata.uid in self.available

    def actions(self, owner: Deployment) -> Sequence[Action]:
        if owner.spec.get("paused") and self.old and self.wanted:
            return _deletions(self.ended)
        created, surplus = (
            self._recreate() if is_recreated(owner.spec) else self._roll(*limits(owner.spec, self.wanted))
        )
        # Delete unavailable pods first, then the newest ones.
        newest_first = self.new[::-1]
        excess = sorted(newest_first, key=self.is_available)[: max(0, len(self.new) - self.wanted)]
        return [*self._creations(owner, created), *_deletions([*self.ended, *excess, *surplus])]

    def _recreate(self) -> tuple[int, list[Pod]]:
        older = any(pod.metadata.labels.get(TEMPLATE_HASH) != self.hash for pod in self.all)
        return 0 if older else self.wanted - len(self.new), self.old

    def _roll(self, surge: int, unavailable: int) -> tuple[int, list[Pod]]:
        """Return how many pods to create and which old ones to delete, counted as the controller of Kubernetes does."""
        total, least = len(self.new) + len(self.old), self.wanted - unavailable
        created = min(self.wanted - len(self.new), self.wanted + surge - total)
        unproved = sum(not self.is_available(pod) for pod in self.new)
        most = total - least - unproved
        if most <= 0:
            return created, []
        broken = [pod for pod in self.old if not self.is_available(pod)]
        sound = [pod for pod in self.old if self.is_available(pod)]
        return created, [*broken[:most], *sound[: max(0, len(self.available) - least)]]

    def _creations(self, owner: Deployment, number: int) -> Iterable[Action]:
        taken = {pod.metadata.name for pod in self.all}
        prefix = owner.metadata.name[:LONGEST_PREFIX].rstrip("-.")
        names = (f"{prefix}-{self.hash}-{index}" for index in count())
        free = (name for name in names if name not in taken)
        return (Create(_pod(owner, name, self.hash)) for name in islice(free, max(0, number)))


def _pod(owner: Deployment, name: str, digest: str) -> Pod:
    template = owner.spec["template"]
    given = template.get("metadata") or {}
    reference = OwnerReference(
        api_version=owner.api_version,
        kind=owner.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
    metadata = ObjectMeta(
        name=name,
        namespace=owner.metadata.namespace,
        labels={**(given.get("labels") or {}), TEMPLATE_HASH: digest},
        annotations=given.get("annotations") or {},
        owner_references=[reference],
    )
    return Pod(metadata=metadata, spec={"restartPolicy": "Always", **template["spec"]})


def _deletions(pods: Iterable[Pod]) -> list[Delete]:
    staying = (pod for pod in pods if pod.metadata.deletion_timestamp is None)
    return [Delete("Pod", pod.metadata.name, pod.metadata.uid) for pod in staying]


def _ready_since(pod: Pod) -> datetime | None:
    found = (one for one in pod.status.conditions if one.type == "Ready" and one.status == TRUE)
    return next((one.last_transition_time for one in found), None)


def _status(owner: Deployment, fleet: _Fleet, now: datetime) -> DeploymentStatus:
    live = [*fleet.new, *fleet.old]
    _, unavailable = limits(owner.spec, fleet.wanted)
    if len(fleet.available) >= fleet.wanted - unavailable:
        availability = TRUE, "MinimumReplicasAvailable", "Deployment has minimum availability."
    else:
        availability = FALSE, "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
    conditions = [_condition(owner.status, AVAILABLE, *availability, now)]
    complete = not fleet.old and len(fleet.new) == len(fleet.available) == fleet.wanted
    progress = ("NewReplicaSetAvailable", "") if complete else _obstacle(fleet)
    conditions.append(_condition(owner.status, PROGRESSING, TRUE, *progress, now))
    if reason := owner.metadata.annotations.get(SUSPEND_REASON):
        conditions.append(_condition(owner.status, SUSPENDED, TRUE, reason, "", now))
        if fleet.all and owner.status.conditions:
            conditions = owner.status.conditions  # suspended only once its pods have ended
    return DeploymentStatus(
        observed_generation=owner.metadata.generation,
        replicas=len(live),
        updated_replicas=len(fleet.new),
        ready_replicas=sum(pod.is_ready for pod in live),
        available_replicas=len(fleet.available),
        restarts=sum(one.restart_count for pod in live for one in pod.status.container_statuses),
        conditions=conditions,
    )


def _obstacle(fleet: _Fleet) -> tuple[str, str]:
    """Return reason and message: why the first unready pod waits, or that the rollout is in progress."""
    for pod in (*fleet.new, *fleet.old):
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            waiting, ended = status.state.waiting, status.last_state.terminated
            if status.ready or not waiting:
                continue
            told = ": ".join(filter(None, (f"exited {ended.exit_code}", ended.message))) if ended else waiting.message
            if told:
                return waiting.reason, f"{pod.metadata.name}: {told}"
    for pod in (*fleet.new, *fleet.old):
        if not pod.is_ready and any("readinessProbe" in one for one in pod.spec.get("containers") or ()):
            return NOT_READY, f"{pod.metadata.name}: waiting for its readiness probe"
    return "ReplicaSetUpdated", ""


def _events(before: DeploymentStatus, after: DeploymentStatus) -> list[Event]:
    is_new = (before.reason, before.message) != (after.reason, after.message)
    return [Event("BackOff", after.message, warning=True)] if is_new and after.reason == CRASH_LOOP else []


def _condition(
    status: DeploymentStatus, kind: str, truth: str, reason: str, message: str, now: datetime
) -> PodCondition:
    before = next((one for one in status.conditions if one.type == kind and one.status == truth), None)
    since = before.last_transition_time if before else now
    return PodCondition(type=kind, status=truth, reason=reason, message=message, last_transition_time=since)
