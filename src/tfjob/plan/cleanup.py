"""What stays when a job is over: `cleanPodPolicy`, whichever way it ended."""

from __future__ import annotations

from tfjob.api.objects import Pod, Service
from tfjob.api.types import TFJob
from tfjob.plan.actions import Action, Delete
from tfjob.plan.tasks import Observed

RUNNING, ALL, NONE = "Running", "All", "None"


def cleanup(job: TFJob, observed: Observed) -> list[Action]:
    """The removals: `All` every pod, `Running` (the default) those that have not ended, `None` none.

    A service goes with its pod.
    """
    policy = job.spec.run_policy.clean_pod_policy or RUNNING
    if policy == NONE:
        return []
    kept = [child for child in observed.pods if policy != ALL and child.status.phase in ("Succeeded", "Failed")]
    return _all_but(observed, {child.metadata.name for child in kept})


def everything(observed: Observed) -> list[Action]:
    """Removes all children, as suspending does."""
    return _all_but(observed, set())


def _all_but(observed: Observed, kept: set[str]) -> list[Action]:
    children: list[Pod | Service] = [*observed.pods, *observed.services]
    return [
        Delete(child.kind, child.metadata.name, child.metadata.uid)
        for child in children
        if child.metadata.name not in kept and child.metadata.deletion_timestamp is None
    ]
