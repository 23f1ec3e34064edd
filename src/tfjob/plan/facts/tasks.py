"""The tasks of a job (`worker-0`), what the cluster shows of them, and how a status names many of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache

from msgspec import Struct

from tfjob.api import ranges as indexes
from tfjob.api.defaults import serves_by_default
from tfjob.api.dialect import origin
from tfjob.api.names import REPLICA_INDEX_LABEL, REPLICA_TYPE_LABEL, task_name, tensorboard_name
from tfjob.api.objects import ConfigMap, ContainerStatus, Deployment, Pod, PodGroup, Service
from tfjob.api.types import CONTAINER_NAME, MASTER, MOST_REPLICAS, PS, REPLICA_TYPES, TFJob

CANONICAL_TYPE = {replica_type.lower(): replica_type for replica_type in REPLICA_TYPES}


class Task(Struct, frozen=True, order=True, cache_hash=True):
    """One replica of a job."""

    type: str
    index: int

    @property
    def name(self) -> str:
        """How people call it: `worker-0`."""
        return task_name(self.type, self.index)


@dataclass(frozen=True)
class Refusal:
    """A child that the cluster would not create: why, and since when."""

    reason: str
    message: str
    since: datetime


@dataclass(frozen=True)
class Observed:
    """The children of a job as the cluster shows them now; refusals go by the kind and name of the child."""

    pods: list[Pod] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    pod_groups: list[PodGroup] = field(default_factory=list)
    config_maps: list[ConfigMap] = field(default_factory=list)
    deployments: list[Deployment] = field(default_factory=list)
    refusals: Mapping[tuple[str, str], Refusal] = field(default_factory=dict)
    lost_nodes: frozenset[str] = frozenset()


def desired(job: TFJob) -> tuple[Task, ...]:
    """Every task that the spec asks for, in v1.9's order of types."""
    return _tasks(tuple(replicas_of(job, replica_type) for replica_type in REPLICA_TYPES))


def replicas_of(job: TFJob, replica_type: str) -> int:
    """How many tasks of a type the spec asks for; unset means one, and an edit that nobody judged has an end too."""
    replica = job.spec.tf_replica_specs.get(replica_type)
    if replica is None:
        return 0
    return 1 if replica.replicas is None else min(replica.replicas, MOST_REPLICAS)


def policy_of(job: TFJob, task: Task) -> str:
    """The restart policy of a task: the replica's, else its template's own, else Never.

    The default parameter server is restarted in place whenever it ends, unless its template says otherwise.
    In a TfJob of the first operator the task itself decides: the end of the chief is judged by its exit code, a
    parameter server always runs, and anyone else runs until it exits 0.
    """
    if origin(job).is_first:
        return "ExitCode" if task == chief_of(job) else "Always" if task.type == PS else "OnFailure"
    replica = job.spec.tf_replica_specs[task.type]
    if replica.restart_policy:
        return replica.restart_policy
    own: str | None = ((replica.template or {}).get("spec") or {}).get("restartPolicy")
    return own or ("Always" if serves_by_default(job, task.type, replica) else "Never")


def chief_of(job: TFJob) -> Task | None:
    """The task that `terminationPolicy` calls the chief."""
    chief = job.spec.termination_policy and job.spec.termination_policy.chief
    return Task(CANONICAL_TYPE.get(chief.replica_name.lower(), MASTER), chief.replica_index) if chief else None


def task_of(child: Pod | Service) -> Task | None:
    """The task that a pod or service belongs to, by its labels."""
    labels = child.metadata.labels
    return _labelled(labels.get(REPLICA_TYPE_LABEL, ""), labels.get(REPLICA_INDEX_LABEL, ""))


def main_container(pod: Pod) -> ContainerStatus | None:
    """The container whose end is the task's end: the one called tensorflow, else the first."""
    statuses = pod.status.container_statuses
    for status in statuses:
        if status.name == CONTAINER_NAME:
            return status
    return statuses[0] if statuses else None


def members(ranges: Mapping[str, str]) -> frozenset[Task]:
    """The tasks that a status field such as `started` names."""
    return frozenset().union(*(_members(replica_type, text) for replica_type, text in ranges.items()))


def ranges(tasks: Iterable[Task]) -> dict[str, str]:
    """The status field that names `tasks`."""
    by_type: dict[str, set[int]] = {}
    for task in tasks:
        by_type.setdefault(task.type, set()).add(task.index)
    return {replica_type: indexes.render(by_type[replica_type]) for replica_type in sorted(by_type)}


# A pass asks for the same few tasks many times, and the next pass again.


@lru_cache(maxsize=64)
def _tasks(counts: tuple[int, ...]) -> tuple[Task, ...]:
    types = zip(REPLICA_TYPES, counts, strict=True)
    return tuple(Task(replica_type, index) for replica_type, count in types for index in range(count))


@lru_cache(maxsize=4096)
def _labelled(replica_type: str, index: str) -> Task | None:
    known = CANONICAL_TYPE.get(replica_type)
    return Task(known, int(index)) if known and index.isdigit() else None


@lru_cache(maxsize=256)
def _members(replica_type: str, text: str) -> frozenset[Task]:
    return frozenset(Task(replica_type, index) for index in indexes.parse(text))


def apart(job: TFJob, observed: Observed) -> tuple[Observed, Observed]:
    """The children of the replicas, and those of the TensorBoard."""
    if not observed.services and not observed.deployments:
        return observed, Observed()
    name = tensorboard_name(job)
    services = [child for child in observed.services if child.metadata.name == name]
    others = [child for child in observed.services if child.metadata.name != name]
    return replace(observed, services=others, deployments=[]), Observed(
        services=services, deployments=observed.deployments
    )
