"""Attempts: which run of its task a pod is, and whether that is the one the status asks for.

A pod carries the attempt it was made for. Restarts in place add to it, restarts by the controller make a new pod.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from tfjob.api.objects import Pod
from tfjob.api.types import TFJob, TFJobStatus
from tfjob.plan.facts.gangs import gang_types
from tfjob.plan.facts.tasks import Task, main_container

ATTEMPT = "tfjob/attempt"
"""Annotation of a pod: the attempt of its task that it was made for."""


def attempt_of(pod: Pod) -> int:
    """The attempt that a pod is on: the one it was made for, plus its restarts in place."""
    return made_for(pod) + restarts_in_place(pod)


def made_for(pod: Pod) -> int:
    """The attempt that a pod was made for."""
    written = pod.metadata.annotations.get(ATTEMPT, "")
    return int(written) if written.isdecimal() else 1  # by hand, perhaps


def restarts_in_place(pod: Pod) -> int:
    """How often the kubelet has restarted the main container."""
    status = main_container(pod)
    return status.restart_count if status else 0


def attempt_due(job: TFJob, status: TFJobStatus, task: Task) -> int:
    """The attempt that a task should be on."""
    return attempts_due(job, status)(task)


def attempts_due(job: TFJob, status: TFJobStatus) -> Callable[[Task], int]:
    """The attempt that each task should be on.

    A gang's attempts do not concern a task beside it: an evaluator goes on while the gang starts again.
    """
    types, together, restarts = gang_types(job), max(status.attempt, 1), status.task_restarts

    def due(task: Task) -> int:
        shared = together if not types or task.type in types else 1
        return shared + restarts.get(task.name, 0) if restarts else shared

    return due


def is_stale(pod: Pod, task: Task, due: int, started: Set[Task]) -> bool:
    """Whether a pod is of an attempt that is over.

    A task that is not in `started` was not yet seen on the attempt that is due. Its old pod stays old even if the
    kubelet restarts it in place, or reports such a restart late.
    """
    return attempt_of(pod) < due or (task not in started and made_for(pod) < due)
