"""Which tasks live and die together: peers of one collective cannot go on without each other."""

from __future__ import annotations

from tfjob.api.dialect import BATCH, origin
from tfjob.api.types import CHIEF, MASTER, PS, WORKER, TFJob
from tfjob.plan.facts.tasks import Task, desired, replicas_of

GANG, TASK = "Gang", "Task"
COLLECTIVE_TYPES = frozenset({CHIEF, MASTER, WORKER})


def gang_types(job: TFJob) -> frozenset[str]:
    """The types whose tasks restart as one; none when every task restarts alone.

    `Auto` binds chief, master and workers together unless parameter servers or dynamic workers hold the state.
    Evaluators never belong: they only read checkpoints. In a TfJob of tensorflow.org everyone is started again alone,
    as its documents say: of a collective whose member is lost, the others end by themselves.
    """
    if job.spec.restart_scope == TASK or origin(job).api_version == BATCH:
        return frozenset()
    if job.spec.restart_scope == GANG:
        return COLLECTIVE_TYPES | {PS}
    if origin(job).is_first:
        return frozenset()
    independent = replicas_of(job, PS) > 0 or job.spec.enable_dynamic_worker
    return frozenset() if independent else COLLECTIVE_TYPES


def gang(job: TFJob) -> frozenset[Task]:
    """The tasks that restart as one; a single task is no gang."""
    types = gang_types(job)
    tasks = frozenset(task for task in desired(job) if task.type in types)
    return tasks if len(tasks) > 1 else frozenset()
