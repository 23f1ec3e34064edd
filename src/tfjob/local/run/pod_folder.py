"""The folder of a pod: where it is, whether its supervisor started, and what to remove after its processes end."""

from __future__ import annotations

import shutil
from pathlib import Path

from tfjob.api.objects import Pod
from tfjob.local.sandbox import cgroups, processes, rootfs, supervisor
from tfjob.records.pods import pod_folder as pod_folder


def was_launched(folder: Path) -> bool:
    return (folder / "supervisor.json").exists() or supervisor.alive(folder)


def sweep(pod: Pod) -> None:
    """End and remove what a killed supervisor left: processes that escaped it, and cgroups."""
    processes.sweep(pod.metadata.uid)
    cgroups.sweep(pod.metadata.uid)


def clean(folder: Path) -> None:
    """Remove what a pod needed only while it ran; its spec, status and logs stay."""
    rootfs.remove_rootfs(folder)
    for name in ("volumes", "bin"):
        shutil.rmtree(folder / name, ignore_errors=True)
