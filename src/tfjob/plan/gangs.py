"""Which tasks live and die together: peers of one collective cannot go on without each other."""

from __future__ import annotations

from tfjob.api.origin import BATCH, origin
from tfjob.api.types import CHIEF, MASTER, PS, WORKER, TFJob
from tfjob.plan.tasks import Task, desired, replicas_of

GANG, TASK = "Gang", "Task"
COLLECTIVE_TYPES = (CHIEF, MASTER, WORKER)


def gang(job: TFJob) -> frozenset[Task]:
    """The tasks that restart as one; empty when every task restarts alone.

    `Auto` makes a gang of chief, master and workers unless parameter servers or dynamic workers hold the state.
    Evaluators never belong: they only read checkpoints.
    """
    if job.spec.restart_scope == TASK or origin(job).api_version == BATCH:
        return frozenset()
    independent = replicas_of(job, PS) > 0 or job.spec.enable_dynamic_worker
    if job.spec.restart_scope != GANG and independent:
        return frozenset()
    members = frozenset(task for task in desired(job) if task.type in COLLECTIVE_TYPES or task.type == PS)
    return members if len(members) > 1 else frozenset()
