"""Runs by name: finding one, and removing what it left."""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime

from tfjob.api.objects import Pod
from tfjob.controller import finding
from tfjob.local import rootfs, supervisor
from tfjob.local.pod_folder import clean, pod_folder, sweep
from tfjob.local.store import Run, Store
from tfjob.plan.limits import expiry

POLL_SECONDS = 0.05


def listed(store: Store, namespace: str | None = None, *, everything: bool = False) -> list[Run]:
    """The runs that `ps` shows: those whose name means them, or all."""
    runs = store.runs(namespace, current=None if everything else True)
    return runs if everything else [run for run in runs if not is_expired(run)]


def find(store: Store, name: str, namespace: str, *, latest_of_all: bool = False) -> Run:
    """The run that `name` means: a job's name, a run's id (`mnist.1`), `@latest`, or a unique beginning.

    `latest_of_all` makes `@latest` the newest of every namespace: who has just started a job means that one.
    """

    def elsewhere() -> set[str]:
        return {run.key.namespace for run in store.runs() if name in (finding.LATEST, run.name, run.id)}

    known = store.runs(None if latest_of_all and name == finding.LATEST else namespace)
    return finding.find(known, name, namespace, elsewhere)


def remove(store: Store, run: Run) -> None:
    """Removes a run that nobody drives, with its logs and its record; claims stay."""
    end_leftovers(store, run)
    for folder in sorted((run.folder / "pods").glob("*")):
        rootfs.remove_rootfs(folder)
    shutil.rmtree(run.folder, ignore_errors=True)
    store.remove(run.job.metadata.uid)


def end_leftovers(store: Store, run: Run) -> None:
    """Ends the pods of a run that nobody drives, such as those that `cleanPodPolicy: None` kept."""
    pods = store.children(Pod, run.job.metadata.uid)
    folders = [pod_folder(run.folder, pod) for pod in pods]
    for folder in folders:
        supervisor.stop(folder)
    while any(supervisor.alive(folder) for folder in folders):
        time.sleep(POLL_SECONDS)
    for pod, folder in zip(pods, folders, strict=True):
        sweep(pod)
        clean(folder)


def is_expired(run: Run) -> bool:
    """Whether the time to live of a finished job is over; its record stays."""
    until = expiry(run.job, run.job.status)
    return until is not None and until <= datetime.now(UTC)
