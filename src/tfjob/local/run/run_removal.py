"""Removing a run that nobody drives: what still runs of it, its files and its record."""

from __future__ import annotations

import shutil
import time

from tfjob.api.objects import Pod
from tfjob.local.run.pod_folder import clean, pod_folder, sweep
from tfjob.local.sandbox import rootfs, supervisor
from tfjob.local.state.store import Run, Store

POLL_SECONDS = 0.05


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
