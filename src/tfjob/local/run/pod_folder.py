"""The folder of a pod: where it is, whether anything ran in it, and what to remove when its processes are over."""

from __future__ import annotations

import shutil
from pathlib import Path

from tfjob.api.objects import Pod
from tfjob.local.sandbox import cgroups, processes, rootfs, supervisor
from tfjob.records.pods import pod_folder as pod_folder


def was_launched(folder: Path) -> bool:
    """Whether a supervisor ever took charge of the pod."""
    return (folder / "supervisor.json").exists() or supervisor.alive(folder)


def sweep(pod: Pod) -> None:
    """Ends and removes what a killed supervisor could not: processes that escaped it, control groups."""
    processes.sweep(pod.metadata.uid)
    cgroups.sweep(pod.metadata.uid)


def clean(folder: Path) -> None:
    """Removes what a pod needed only while it ran; its spec, status and logs stay."""
    rootfs.remove_rootfs(folder)
    for name in ("volumes", "bin"):
        shutil.rmtree(folder / name, ignore_errors=True)
