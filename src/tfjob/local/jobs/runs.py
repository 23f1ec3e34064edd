"""Runs of this machine by name: which there are, and which one a name means."""

from __future__ import annotations

from tfjob.jobs import find as finding
from tfjob.local.run.driver_lock import is_expired
from tfjob.local.state.store import Run, Store


def list_runs(store: Store, namespace: str | None = None, *, everything: bool = False) -> list[Run]:
    """The runs that `ps` shows: those whose name means them, or all."""
    runs = store.runs(namespace, current=None if everything else True)
    return runs if everything else [run for run in runs if not is_expired(run)]


def find_run(store: Store, name: str, namespace: str, *, latest_of_all: bool = False) -> Run:
    """The run that `name` means: a job's name, a run's id (`mnist.1`), `@latest`, or a unique beginning.

    `latest_of_all` makes `@latest` the newest of every namespace: who has just started a job means that one.
    """
    known = store.runs(None if latest_of_all and name == finding.LATEST else namespace)
    found = finding.find(known, name)
    if found is None:
        elsewhere = {run.key.namespace for run in store.runs() if name in (finding.LATEST, run.name, run.id)}
        raise finding.not_found(known, name, namespace, elsewhere)
    return found
