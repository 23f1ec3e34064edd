"""The state of every replica of a job, for `status`, the live view and `ps`; pure, the same wherever they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tfjob.api.objects import Pod, PodStatus
from tfjob.api.types import TFJob
from tfjob.controller.kind import STOPPED
from tfjob.jobs.backend import Replica
from tfjob.plan.facts.tasks import Task, attempt_of, attempts_due, desired, main_container, members, task_of
from tfjob.plan.policy.in_place import between_tries

TERMINATING = "Terminating"


@dataclass(frozen=True)
class Trace:
    """What the pods of a replica left: the newest status, and how often the replica was started.

    `stopped` says that its newest pod did not end by itself; `start` and `pid` are those of `Replica`.
    """

    status: PodStatus | None
    attempts: int
    stopped: bool = False
    start: str = ""
    pid: int | None = None


def replicas(job: TFJob, pods: Iterable[Pod], traces: Mapping[str, Trace] | None = None) -> list[Replica]:
    """Every replica that the job asks for, by its pod and its trace.

    Without traces, by name of the replica, the pods and the job's status say what there is to know.
    """
    by_task = {task: pod for pod in pods if (task := task_of(pod))}
    completed = members(job.status.completed_indexes)
    known = _traces(job, by_task) if traces is None else traces
    found = []
    for task in desired(job):
        pod, trace = by_task.get(task), known[task.name]
        last = Pod(status=trace.status or PodStatus())
        container = main_container(last)
        ended = container.state.terminated if container else None
        is_leaving = pod is not None and pod.metadata.deletion_timestamp is not None
        phase = "Succeeded" if task in completed else "-"
        if trace.status is not None:
            phase = trace.status.phase or "Pending"
        shown = STOPPED if phase == "Failed" and trace.stopped else between_tries(last)
        found.append(
            Replica(
                name=task.name,
                phase=TERMINATING if is_leaving else phase,
                shown="" if is_leaving else shown,
                attempts=trace.attempts,
                restarts=job.status.task_restarts.get(task.name, 0),
                exit_code=ended.exit_code if ended else 0 if task in completed else None,
                address=pod.status.pod_ip if pod else "",
                node=pod.spec.get("nodeName", "") if pod else "",
                resources=resources_of(pod) if pod else {},
                start=trace.start,
                pid=trace.pid if not ended else None,
            )
        )
    return found


def _traces(job: TFJob, pods: Mapping[Task, Pod]) -> dict[str, Trace]:
    """By what is left of the pods and what the job's status remembers of those that are gone."""
    begun = members(job.status.started) | members(job.status.completed_indexes)
    due = attempts_due(job, job.status)
    traces = {}
    for task in desired(job):
        pod = pods.get(task)
        attempts = attempt_of(pod) if pod else due(task) - (task not in begun)
        traces[task.name] = Trace(pod.status if pod else None, attempts)
    return traces


def resources_of(pod: Pod) -> dict[str, Any]:
    """Requests and limits of the main container, as the manifest has them."""
    containers = pod.spec.get("containers") or [{}]
    resources: dict[str, Any] = containers[0].get("resources") or {}
    return resources
