"""The tasks of a job (`worker-0`), their gangs and attempts.

A gang is a set of tasks that restart together: peers of one collective cannot continue without each other. A pod
records the attempt that it was made for. Restarts in place add to it; restarts by the controller create a new pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from functools import lru_cache

from msgspec import Struct

from tfjob.api import ranges as indexes
from tfjob.api.defaults import serves_by_default
from tfjob.api.dialect import BATCH, origin
from tfjob.api.names import REPLICA_INDEX_LABEL, REPLICA_TYPE_LABEL, has_master_role, task_name, tensorboard_name
from tfjob.api.objects import ContainerStatus, Deployment, Pod, Service
from tfjob.api.types import CHIEF, CONTAINER_NAME, MASTER, MOST_REPLICAS, PS, REPLICA_TYPES, WORKER, TFJob, TFJobStatus
from tfjob.controller.kind import Observation

CANONICAL_TYPE = {replica_type.lower(): replica_type for replica_type in REPLICA_TYPES}
GANG, TASK = "Gang", "Task"
COLLECTIVE_TYPES = frozenset({CHIEF, MASTER, WORKER})
ATTEMPT = "tfjob/attempt"
"""Annotation of a pod: the attempt of its task that it was made for."""


class Task(Struct, frozen=True, order=True, cache_hash=True):
    """One replica of a job."""

    type: str
    index: int

    @property
    def name(self) -> str:
        return task_name(self.type, self.index)


def desired(job: TFJob) -> tuple[Task, ...]:
    """Return every task of the spec, in v1.9's order of types."""
    return _tasks(tuple(replicas_of(job, replica_type) for replica_type in REPLICA_TYPES))


def replicas_of(job: TFJob, replica_type: str) -> int:
    """Return the number of tasks of a type: 1 if unset, and at most MOST_REPLICAS even if the spec is not validated."""
    replica = job.spec.tf_replica_specs.get(replica_type)
    return min(replica.count, MOST_REPLICAS) if replica else 0


def policy_of(job: TFJob, task: Task) -> str:
    """Return the restart policy of a task: that of the replica, else of its template, else Never.

    The default of default parameter servers is Always. In a TfJob (2017) the role decides: ExitCode for the chief,
    Always for a parameter server, OnFailure for any other task.
    """
    if origin(job).restarts_by_role:
        return "ExitCode" if task == chief_of(job) else "Always" if task.type == PS else "OnFailure"
    replica = job.spec.tf_replica_specs[task.type]
    if replica.restart_policy:
        return replica.restart_policy
    own: str | None = ((replica.template or {}).get("spec") or {}).get("restartPolicy")
    return own or ("Always" if serves_by_default(job, task.type, replica) else "Never")


def chief_of(job: TFJob) -> Task | None:
    chief = job.spec.termination_policy and job.spec.termination_policy.chief
    return Task(CANONICAL_TYPE.get(chief.replica_name.lower(), MASTER), chief.replica_index) if chief else None


def representative(job: TFJob) -> Task | None:
    """Return the task that represents the job; None if the job has no task."""
    tasks = desired(job)
    return next((task for task in tasks if has_master_role(job, task.type, task.index)), tasks[0] if tasks else None)


def task_of(child: Pod | Service) -> Task | None:
    labels = child.metadata.labels
    return _labelled(labels.get(REPLICA_TYPE_LABEL, ""), labels.get(REPLICA_INDEX_LABEL, ""))


def main_container(pod: Pod) -> ContainerStatus | None:
    """Return the container whose end is the end of the task: the one named tensorflow, else the first."""
    statuses = pod.status.container_statuses
    return next((one for one in statuses if one.name == CONTAINER_NAME), statuses[0] if statuses else None)


def members(ranges: Mapping[str, str]) -> frozenset[Task]:
    """Return the tasks in a status field such as `started`."""
    return frozenset().union(*(_members(replica_type, text) for replica_type, text in ranges.items()))


def ranges(tasks: Iterable[Task]) -> dict[str, str]:
    by_type: dict[str, set[int]] = {}
    for task in tasks:
        by_type.setdefault(task.type, set()).add(task.index)
    return {replica_type: indexes.render(by_type[replica_type]) for replica_type in sorted(by_type)}


# These are cached because every pass needs the same few tasks many times.


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


def split_tensorboard(job: TFJob, observed: Observation) -> tuple[Observation, Observation]:
    """Return the children of replicas and those of the TensorBoard; Services of the manifest are neither."""
    if not observed.of(Service) and not observed.of(Deployment):
        return observed, Observation()
    name = tensorboard_name(job)
    services = [child for child in observed.of(Service) if child.metadata.name == name]
    others = [child for child in observed.of(Service) if child.metadata.name != name and task_of(child)]
    board = Observation({Service: services, Deployment: observed.of(Deployment)})
    return replace(observed, children={**observed.children, Service: others, Deployment: []}), board


def gang_types(job: TFJob) -> frozenset[str]:
    """Return the types whose tasks restart together; none if every task restarts alone.

    `Auto` makes chief, master and workers a gang unless there are parameter servers or dynamic workers. Evaluators are
    never in a gang: they only read checkpoints. In a TfJob (2017) every task restarts alone, as documented: if a member
    of a collective is lost, the others exit.
    """
    if job.spec.restart_scope == TASK or origin(job).api_version == BATCH:
        return frozenset()
    if job.spec.restart_scope == GANG:
        return COLLECTIVE_TYPES | {PS}
    if origin(job).restarts_by_role:
        return frozenset()
    independent = replicas_of(job, PS) > 0 or job.spec.enable_dynamic_worker
    return frozenset() if independent else COLLECTIVE_TYPES


def gang(job: TFJob) -> frozenset[Task]:
    """Return the tasks that restart together; a single task is not a gang."""
    types = gang_types(job)
    tasks = frozenset(task for task in desired(job) if task.type in types)
    return tasks if len(tasks) > 1 else frozenset()


def attempt_of(pod: Pod) -> int:
    """Return the attempt that a pod is on: the one it was made for, plus its restarts in place."""
    return made_for(pod) + restarts_in_place(pod)


def made_for(pod: Pod) -> int:
    written = pod.metadata.annotations.get(ATTEMPT, "")
    return int(written) if written.isdecimal() else 1


def restarts_in_place(pod: Pod) -> int:
    status = main_container(pod)
    return status.restart_count if status else 0


def attempts_due(job: TFJob, status: TFJobStatus) -> Callable[[Task], int]:
    """Return a function from a task to the attempt that it should be on; tasks outside a gang ignore its attempts."""
    types, together, restarts = gang_types(job), max(status.attempt, 1), status.task_restarts

    def due(task: Task) -> int:
        shared = together if not types or task.type in types else 1
        return shared + restarts.get(task.name, 0) if restarts else shared

    return due


def is_stale(pod: Pod, task: Task, due: int, started: Set[Task]) -> bool:
    """Return whether a pod belongs to an earlier attempt.

    Until a pod of the due attempt has been seen (`started`), the old pod stays stale even if it restarts in place.
    """
    return attempt_of(pod) < due or (task not in started and made_for(pod) < due)
