"""Runs by name: finding one, and removing what it left."""

from __future__ import annotations

import difflib
import shutil
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from tfjob.api.objects import Pod
from tfjob.local import rootfs, supervisor
from tfjob.local.pod_folder import clean, pod_folder, sweep
from tfjob.local.refusal import Refusal
from tfjob.local.store import Run, Store
from tfjob.plan.limits import expiry

LATEST = "@latest"
POLL_SECONDS = 0.05


class NotFound(Refusal):
    """No run answers to that name."""


def listed(store: Store, namespace: str | None = None, *, everything: bool = False) -> list[Run]:
    """The runs that `ps` shows: those whose name means them, or all."""
    runs = store.runs(namespace, current=None if everything else True)
    return runs if everything else [run for run in runs if not is_expired(run)]


def find(store: Store, name: str, namespace: str) -> Run:
    """The run that `name` means: a job's name, a run's id (`mnist.1`), `@latest`, or a unique beginning."""
    runs = store.runs(namespace)
    if name == LATEST and runs:
        return runs[-1]
    exact = [run for run in runs if run.id == name] or [run for run in runs if run.job.metadata.name == name]
    if exact:
        return _current(exact)
    starting: dict[str, list[Run]] = {}
    for run in runs if name else ():
        if run.job.metadata.name.startswith(name):
            starting.setdefault(run.job.metadata.name, []).append(run)
    if len(starting) == 1:
        return _current(next(iter(starting.values())))
    if starting:
        raise NotFound(f"{name} could be {', '.join(sorted(starting))}", "Write more of it.")
    raise _not_found(store, name, namespace)


def _current(runs: Sequence[Run]) -> Run:
    return next((run for run in runs if run.current), runs[-1])


def _not_found(store: Store, name: str, namespace: str) -> NotFound:
    message = f"there is no job{'' if name == LATEST else ' ' + name} in namespace {namespace}"
    elsewhere = sorted(
        {run.key.namespace for run in store.runs() if name in (LATEST, run.key.name, run.id)} - {namespace}
    )
    if elsewhere:
        return NotFound(message, f"There is one in namespace {elsewhere[0]}: add -n {elsewhere[0]}.")
    known = {run.key.name for run in store.runs(namespace)}
    if near := difflib.get_close_matches(name, known, n=1):
        return NotFound(message, f"Did you mean {near[0]}?")
    return NotFound(message, "`tfjob ps -a` lists what there is." if known else "Start one with: tfjob run FILE")


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
