"""The TFJobs and Deployments among the runs of this machine: as their types, and by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from tfjob.api.objects import Deployment, Pod
from tfjob.api.resources import DEPLOYMENTS
from tfjob.api.types import KIND, TFJob
from tfjob.controller.kind import INTERRUPTED
from tfjob.jobs import find as finding
from tfjob.jobs.backend import is_suspended, summary
from tfjob.local.run.driver_lock import is_driven, is_interrupted, needs_driver, start_background, suspend
from tfjob.local.state.home import Home
from tfjob.local.state.store import Run, Store, edit
from tfjob.plan.facts.conditions import SUSPENDED, is_finished
from tfjob.plan.policy import run_policy

TYPES: dict[str, type[TFJob] | type[Deployment]] = {KIND: TFJob, DEPLOYMENTS.kind: Deployment}


def job_of(run: Run) -> TFJob:
    return run.decode(TFJob)


def owner_of(run: Run) -> TFJob | Deployment:
    return run.decode(TYPES[run.key.kind])


def edit_owner(store: Store, run: Run, change: Callable[[Any], Any]) -> None:
    store.update(run.uid, edit(TYPES[run.key.kind], change))


def suspended(owner: Any, reason: str) -> Any:
    if isinstance(owner, TFJob):
        return run_policy.suspended(owner, reason)
    from tfjob.local.run.deployments import DeploymentKind

    return DeploymentKind().suspended(owner, reason)


def resumed(owner: Any) -> Any:
    if isinstance(owner, TFJob):
        return run_policy.resumed(owner)
    from tfjob.local.run import deployments

    return deployments.resumed(owner)


def is_expired(run: Run) -> bool:
    """Return whether the TTL of a finished job has passed; its record stays."""
    job = owner_of(run)
    until = run_policy.expiry(job, job.status) if isinstance(job, TFJob) else None
    return until is not None and until <= datetime.now(UTC)


def is_cut_off(run: Run) -> bool:
    """Return whether an unfinished run has lost the process, or the boot, that kept it alive."""
    owner = owner_of(run)
    return not is_finished(summary(owner)) and not is_suspended(owner) and is_interrupted(run)


def is_at_rest(store: Store, run: Run) -> bool:
    """Return whether nothing is left to do for a job; other runs of its tree may still have work."""
    if not run.current or not needs_driver(run):
        return True
    job = owner_of(run)
    if run.root == run.uid or job.metadata.deletion_timestamp is not None:
        return False
    is_down = is_suspended(job) and job.status.state == SUSPENDED and not store.children(Pod, run.uid)
    return is_down or is_finished(summary(job))


def ensure_driven(home: Home, store: Store, run: Run) -> bool:
    """Start a background driver if a run needs one and has none."""
    if not needs_driver(run) or is_driven(run):
        return False
    root = store.run(run.root)
    if is_interrupted(run) and root is not None:
        # An interrupted run does not continue: the driver only ends the remaining processes.
        from tfjob.kinds import machine_kinds  # imported late: the kinds load the whole plan

        for kind in machine_kinds():
            if kind.resource.kind == root.key.kind:
                suspend(store, root.uid, kind, INTERRUPTED)
    return start_background(home, run)


def list_runs(store: Store, namespace: str | None = None, *, everything: bool = False) -> list[Run]:
    runs = _shown(store.runs(namespace, everything=everything))
    return runs if everything else [run for run in runs if not is_expired(run)]


def _shown(runs: Iterable[Run]) -> list[Run]:
    """Return the jobs, and the Deployments that belong to no job."""
    return [run for run in runs if run.key.kind == KIND or (run.key.kind in TYPES and run.root == run.uid)]


def find_run(store: Store, name: str, namespace: str, *, latest_of_all: bool = False) -> Run:
    """Return the run that `name` refers to: a job's name, a run's id (`mnist.1`), `@latest`, or a unique prefix."""
    known = _shown(store.runs(None if latest_of_all and name == finding.LATEST else namespace))
    found = finding.find(known, name)
    if found is None:
        everywhere = _shown(store.runs())
        elsewhere = {run.key.namespace for run in everywhere if name in (finding.LATEST, run.name, run.id)}
        raise finding.not_found(known, name, namespace, elsewhere)
    return found
