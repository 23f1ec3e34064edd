"""What stays when a job is over: `cleanPodPolicy`, whichever way it ended."""

from __future__ import annotations

from collections.abc import Sequence

from tfjob.api.objects import AnyChild, Pod, Service
from tfjob.api.types import TFJob
from tfjob.plan.actions import Action, Delete
from tfjob.plan.facts.task_state import is_over
from tfjob.plan.facts.tasks import Observed

RUNNING, ALL, NONE = "Running", "All", "None"


def cleanup(job: TFJob, observed: Observed) -> list[Action]:
    """The removals: `All` every pod, `Running` (the default) those that have not ended, `None` none.

    A service goes with its pod, and a group of pods in any case: nothing is left to be scheduled.
    """
    policy = job.spec.run_policy.clean_pod_policy or RUNNING
    if policy == NONE:
        return _removals(observed.pod_groups)
    kept = {child.metadata.name for child in observed.pods if is_over(child)} if policy != ALL else set()
    children: list[Pod | Service] = [*observed.pods, *observed.services]
    return _removals([*(child for child in children if child.metadata.name not in kept), *observed.pod_groups])


def everything(observed: Observed) -> list[Action]:
    """Removes all children, as suspending does."""
    return _removals([*observed.pods, *observed.services, *observed.pod_groups])


def _removals(children: Sequence[AnyChild]) -> list[Action]:
    return [
        Delete(child.kind, child.metadata.name, child.metadata.uid)
        for child in children
        if child.metadata.deletion_timestamp is None
    ]
