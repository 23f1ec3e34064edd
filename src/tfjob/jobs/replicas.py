"""How every replica of a job stands, by its pods; pure, the same wherever they run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tfjob.api.objects import Pod
from tfjob.api.types import TFJob
from tfjob.jobs.backend import Replica
from tfjob.plan.facts.tasks import attempt_due, attempt_of, desired, main_container, members, task_of
from tfjob.plan.policy.in_place import between_tries


def replicas(job: TFJob, pods: Iterable[Pod]) -> list[Replica]:
    """Every replica that the job asks for, with its pod's state if there is one, else what the status remembers."""
    by_task = {task_of(pod): pod for pod in pods}
    completed, started = members(job.status.completed_indexes), members(job.status.started)
    found = []
    for task in desired(job):
        pod = by_task.get(task)
        container = main_container(pod) if pod else None
        ended = container.state.terminated if container else None
        due = attempt_due(job, job.status, task)
        phase = (pod.status.phase or "Pending") if pod else "Succeeded" if task in completed else "-"
        found.append(
            Replica(
                name=task.name,
                phase="Terminating" if pod and pod.metadata.deletion_timestamp else phase,
                shown=between_tries(pod) if pod and not pod.metadata.deletion_timestamp else "",
                attempts=attempt_of(pod) if pod else due if task in started | completed else due - 1,
                restarts=job.status.task_restarts.get(task.name, 0),
                exit_code=ended.exit_code if ended else 0 if task in completed else None,
                address=pod.status.pod_ip if pod else "",
                node=pod.spec.get("nodeName", "") if pod else "",
                resources=resources_of(pod) if pod else {},
            )
        )
    return found


def resources_of(pod: Pod) -> dict[str, Any]:
    """Requests and limits of the main container, as the manifest has them."""
    containers = pod.spec.get("containers") or [{}]
    resources: dict[str, Any] = containers[0].get("resources") or {}
    return resources
