"""The TFJobs among the runs of this machine: as their type, and by name."""

from __future__ import annotations

from collections.abc import Callable

from tfjob.api.types import KIND, TFJob
from tfjob.jobs import find as finding
from tfjob.local.run.driver_lock import is_expired
from tfjob.local.state.store import Run, Store, edit


def job_of(run: Run) -> TFJob:
    return run.decode(TFJob)


def edit_job(store: Store, uid: str, change: Callable[[TFJob], TFJob]) -> None:
    """Apply `change` to the job of a run."""
    store.update(uid, edit(TFJob, change))


def list_runs(store: Store, namespace: str | None = None, *, everything: bool = False) -> list[Run]:
    """Return the runs that `ps` shows: those whose name means them, or all."""
    runs = store.runs(namespace, kind=KIND, current=None if everything else True)
    return runs if everything else [run for run in runs if not is_expired(run)]


def find_run(store: Store, name: str, namespace: str, *, latest_of_all: bool = False) -> Run:
    """The run that `name` means: a job's name, a run's id (`mnist.1`), `@latest`, or a unique beginning.

    `latest_of_all` makes `@latest` the newest of every namespace: who has just started a job means that one.
    """
    known = store.runs(None if latest_of_all and name == finding.LATEST else namespace, kind=KIND)
    found = finding.find(known, name)
    if found is None:
        everywhere = store.runs(kind=KIND)
        elsewhere = {run.key.namespace for run in everywhere if name in (finding.LATEST, run.name, run.id)}
        raise finding.not_found(known, name, namespace, elsewhere)
    return found
