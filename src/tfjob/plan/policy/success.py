"""When a job has succeeded: the rule that it meets, as text for the status."""

from __future__ import annotations

from collections.abc import Iterable, Set

from tfjob.api.types import CHIEF, MASTER, WORKER, TFJob
from tfjob.plan import events
from tfjob.plan.facts.task_state import TaskState
from tfjob.plan.facts.tasks import Task, chief_of, desired, policy_of, replicas_of

ALL_WORKERS = "AllWorkers"


def rule_met(job: TFJob, completed: Set[Task]) -> str | None:
    """Return the rule by which the job has succeeded; None if it has not.

    The chief decides: the one in `terminationPolicy`, else Chief or Master. Without a chief, worker 0 or all workers
    decide; with `successPolicy: AllWorkers`, only all workers. Without any of these types, all replicas decide.
    """
    if chief := chief_of(job):
        return events.REPLICA_DONE.format(replica=chief.name) if chief in completed else None
    for replica_type in (CHIEF, MASTER):
        if replicas_of(job, replica_type):
            return _all(job, replica_type, completed)
    if not replicas_of(job, WORKER):
        tasks = desired(job)
        return events.EVERY_REPLICA_DONE if tasks and all(task in completed for task in tasks) else None
    if job.spec.success_policy != ALL_WORKERS and Task(WORKER, 0) in completed:
        return events.REPLICA_DONE.format(replica="worker-0")
    return _all(job, WORKER, completed)


def exited_at_stop(job: TFJob, views: Iterable[TaskState]) -> set[Task]:
    """Return the tasks that exited 0 while their pods were deleted; one with `Always` is never done."""
    leaving = (view for view in views if view.pod and view.pod.metadata.deletion_timestamp)
    ends = ((view.task, view.container.state.terminated) for view in leaving if view.container)
    return {task for task, end in ends if end and end.exit_code == 0 and policy_of(job, task) != "Always"}


def rule_met_at_stop(job: TFJob, completed: Set[Task]) -> str | None:
    """Return the rule by which a job that was stopped has succeeded; None if it has not."""
    tasks = desired(job)
    return events.STOPPED_DONE if tasks and all(task in completed for task in tasks) else None


def deciding_types(job: TFJob) -> tuple[str, ...]:
    chiefs = tuple(replica_type for replica_type in (CHIEF, MASTER) if replicas_of(job, replica_type))
    if chiefs:
        return chiefs
    if replicas_of(job, WORKER):
        return (WORKER,)
    return tuple(replica_type for replica_type in job.spec.tf_replica_specs if replicas_of(job, replica_type))


def _all(job: TFJob, replica_type: str, completed: Set[Task]) -> str | None:
    count = replicas_of(job, replica_type)
    if not all(Task(replica_type, index) in completed for index in range(count)):
        return None
    kind = replica_type.lower()
    if count == 1:
        return events.REPLICA_DONE.format(replica=f"{kind}-0")
    return events.REPLICAS_DONE.format(count=count, kind=kind)
