"""The state of every replica of a job, for `status`, the live view and `ps`. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tfjob.api.objects import SENT_FILES, ContainerStatus, ContainerTerminated, Deployment, Pod, PodStatus
from tfjob.api.types import CONTAINER_NAME, TFJob
from tfjob.controller.kind import STOPPED
from tfjob.jobs.backend import Replica
from tfjob.jobs.logs import container_labels
from tfjob.plan.facts.tasks import Task, attempt_of, attempts_due, desired, main_container, members, task_of
from tfjob.plan.policy.in_place import between_tries

TERMINATING = "Terminating"


@dataclass(frozen=True)
class Trace:
    """What is known of a replica's pods: the newest status, and the number of starts.

    `stopped` says that tfjob stopped the newest pod; the other fields are those of `Replica`.
    """

    status: PodStatus | None
    attempts: int
    stopped: bool = False
    start: str = ""
    could_be_warm: bool = True
    pid: int | None = None


def replicas(job: TFJob, pods: Iterable[Pod], traces: Mapping[str, Trace] | None = None) -> list[Replica]:
    """Return all replicas of a job, from its pods and from traces by replica name or, without them, its status."""
    by_task = {task: pod for pod in pods if (task := task_of(pod))}
    completed = members(job.status.completed_indexes)
    known = _traces(job, by_task) if traces is None else traces
    found = []
    for task in desired(job):
        restarts = job.status.task_restarts.get(task.name, 0)
        pod, trace = by_task.get(task), known[task.name]
        found.append(replica(task.name, pod, trace, restarts=restarts, is_complete=task in completed))
    return found


def replica(name: str, pod: Pod | None, trace: Trace, *, restarts: int, is_complete: bool = False) -> Replica:
    """Return one replica from its pod and its trace; `is_complete` if the job's status records its success."""
    last = Pod(status=trace.status or PodStatus())
    container = main_container(last)
    ended = _end(container) if container else None
    is_leaving = pod is not None and pod.metadata.deletion_timestamp is not None
    phase = "Succeeded" if is_complete else "-"
    if trace.status is not None:
        phase = trace.status.phase or "Pending"
    shown = STOPPED if phase == "Failed" and trace.stopped else between_tries(last)
    return Replica(
        name=name,
        phase=TERMINATING if is_leaving else phase,
        shown="" if is_leaving else shown,
        attempts=trace.attempts,
        restarts=restarts,
        exit_code=ended.exit_code if ended else 0 if is_complete else None,
        address=pod.status.pod_ip if pod else "",
        node=pod.spec.get("nodeName", "") if pod else "",
        resources=pod.spec["containers"][0].get("resources") or {} if pod and pod.spec.get("containers") else {},
        start=trace.start,
        could_be_warm=trace.could_be_warm,
        pid=trace.pid if not ended else None,
    )


def _end(container: ContainerStatus) -> ContainerTerminated | None:
    return container.state.terminated or (container.last_state.terminated if container.state.waiting else None)


def _traces(job: TFJob, pods: Mapping[Task, Pod]) -> dict[str, Trace]:
    """Return traces from the present pods, and from the job's status for those that are gone."""
    begun = members(job.status.started) | members(job.status.completed_indexes)
    due = attempts_due(job, job.status)
    traces = {}
    for task in desired(job):
        pod = pods.get(task)
        attempts = attempt_of(pod) if pod else due(task) - (task not in begun)
        traces[task.name] = Trace(pod.status if pod else None, attempts)
    return traces


def replica_name(pod: Pod) -> str:
    task = task_of(pod)
    return task.name if task else pod.metadata.name


def replica_names(job: TFJob | Deployment) -> list[str]:
    return [task.name for task in desired(job)] if isinstance(job, TFJob) else []


def replica_counts(job: TFJob | Deployment) -> str:
    """Return the number of replicas by type: `1 chief, 2 workers`."""
    if isinstance(job, Deployment):
        counts = Counter(server=job.wanted_replicas)
    else:
        counts = Counter(task.type.lower() for task in desired(job))
    endings = {kind: "" if count == 1 or kind == "ps" else "s" for kind, count in counts.items()}
    return ", ".join(f"{count} {kind}{endings[kind]}" for kind, count in counts.items()) or "-"


def log_labels(job: TFJob | Deployment) -> list[str]:
    found: list[str] = []
    if isinstance(job, Deployment):
        return found
    for task in desired(job):
        template = job.spec.tf_replica_specs[task.type].template or {}
        found += usual_labels(container_labels(task.name, template.get("spec") or {}).values())
    return found


def usual_labels(labels: Iterable[str]) -> list[str]:
    """Return the labels without those of the containers that unpack sent files, which print only errors."""
    return [label for label in labels if not label.endswith(f"/{SENT_FILES}")]


def container_names(pod_spec: Mapping[str, Any]) -> list[str]:
    names = [container["name"] for container in pod_spec.get("containers") or ()]
    return sorted(names, key=lambda name: name != CONTAINER_NAME)
