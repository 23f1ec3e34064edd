"""How a job of a cluster, and each of its replicas, stands as people should see it; pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tfjob.api.objects import Pod
from tfjob.api.types import TFJob
from tfjob.controller.console import Record, Replica
from tfjob.kube.job_records import short_id
from tfjob.plan.attempts import attempt_due, attempt_of
from tfjob.plan.conditions import SUSPENDED
from tfjob.plan.in_place import between_tries
from tfjob.plan.plan import is_finished
from tfjob.plan.suspension import RESUMING
from tfjob.plan.tasks import desired, main_container, members, task_of

UNSEEN, SUSPENDING, TERMINATING = "NotSeen", "Suspending", "Terminating"
PATIENCE = timedelta(seconds=10)
"""How long a job may lie there before it is said that no operator looks at it."""
PENDING = "Pending"
BEGINNING = datetime.fromtimestamp(0, UTC)


def record(job: TFJob, now: datetime, *, current: bool = True, folder: Path | None = None, options: str = "") -> Record:
    """A job as a command shows it."""
    state = state_of(job)
    return Record(
        job=job,
        id=job.metadata.name if current else short_id(job),
        state=state,
        reason=_reason(job, state, now) if current else job.status.reason,
        created=job.metadata.creation_timestamp or BEGINNING,
        current=current,
        folder=str(folder) if folder else "",
        options=options,
        note=_note(job, now, options) if current else "",
    )


def state_of(job: TFJob) -> str:
    """The state that our operator writes, else what the conditions of another one say.

    What was resumed is Pending, though the operator may not have seen that yet.
    """
    true = [condition.type for condition in job.status.conditions if condition.status == "True"]
    state = job.status.state or next((name for name in reversed(true) if name != "Created"), PENDING)
    return PENDING if state == SUSPENDED and not job.spec.run_policy.suspend else state


def is_unseen(job: TFJob, now: datetime) -> bool:
    """Whether no operator has looked at a job for longer than it should take one."""
    status, made = job.status, job.metadata.creation_timestamp
    looked_at = status.state or status.conditions or is_elsewhere(job)
    return not looked_at and made is not None and now - made > PATIENCE


def is_elsewhere(job: TFJob) -> bool:
    """Whether the job belongs to another controller."""
    return job.spec.run_policy.managed_by not in (None, "", "kubeflow.org/training-operator")


def _note(job: TFJob, now: datetime, options: str) -> str:
    if is_elsewhere(job):
        return f"it is managed by {job.spec.run_policy.managed_by}"
    if is_unseen(job, now):
        return f"no operator has looked at it; is one running? tfjob doctor{options}"
    return ""


def _reason(job: TFJob, state: str, now: datetime) -> str:
    if job.metadata.deletion_timestamp is not None:
        return TERMINATING
    if is_unseen(job, now):
        return UNSEEN
    if job.spec.run_policy.suspend and state != SUSPENDED and not is_finished(job.status):
        return SUSPENDING
    if state == PENDING and job.status.state == SUSPENDED:
        return RESUMING
    return job.status.reason


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
                resources=_resources(pod) if pod else {},
            )
        )
    return found


def _resources(pod: Pod) -> dict[str, Any]:
    containers = pod.spec.get("containers") or [{}]
    resources: dict[str, Any] = containers[0].get("resources") or {}
    return resources
