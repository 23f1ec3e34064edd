"""The TensorBoard of a job on this machine: the folder that it shows, and the event that announces it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from tfjob.api.objects import NEEDED_MODULE, Pod
from tfjob.controller.actions import Event
from tfjob.local.pod.assembly import Machine, volume_context
from tfjob.local.volumes import volumes

MODULE = "tensorboard"
EVENT_FILES = "*tfevents*"


def is_tensorboard(pod: Pod) -> bool:
    return pod.metadata.annotations.get(NEEDED_MODULE) == MODULE


def announcement(pod: Pod, machine: Machine, folder: Path, url: str) -> Event:
    shown = log_folder(pod, machine, folder)
    nothing = f" (no event files yet in {shown})" if has_no_events(shown) else f" shows {shown}"
    return Event("TensorBoard", f"TensorBoard at {url}{nothing}")


def has_no_events(log_dir: str) -> bool:
    """Return whether a folder has no event files yet; False for an object store, which is not checked."""
    return "://" not in log_dir and next(Path(log_dir).rglob(EVENT_FILES), None) is None


def log_folder(pod: Pod, machine: Machine, folder: Path) -> str:
    """Create the volumes of a TensorBoard pod and return the folder that it shows; `folder` holds its own volumes."""
    (container,) = pod.spec["containers"]
    context = volume_context(pod, machine, folder)
    resolved = volumes.resolve(context, {})
    volumes.prepare(resolved, context, datetime.now(UTC))
    words: list[str] = container["command"]
    log_dir = words[words.index("--logdir") + 1]
    return real_folder(log_dir, resolved.mounts[container["name"]], machine.project)


def real_folder(log_dir: str, mounts: Iterable[volumes.Mount], project: Path) -> str:
    """Return the real path of a folder of the TensorBoard container; a relative one starts at the manifest's folder."""
    if "://" in log_dir:
        return log_dir
    path = PurePosixPath(posixpath.normpath(project / log_dir))
    for mount in sorted(mounts, key=lambda mount: len(PurePosixPath(mount.target).parts), reverse=True):
        if path.is_relative_to(mount.target):
            return str(mount.source / path.relative_to(mount.target))
    return str(path)
