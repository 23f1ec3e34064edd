"""The NVIDIA GPUs of this machine: which there are, who asks for them, and who has which.

A replica sees its share by CUDA_VISIBLE_DEVICES. What it has is an annotation of its pod, so that every process that
drives a run knows what is free.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tfjob.api import quantity
from tfjob.api.objects import Pod, PodCondition, PodStatus
from tfjob.durations import durations_from

if TYPE_CHECKING:
    from tfjob.local.state.store import Store

RESOURCES = ("nvidia.com/gpu", "alpha.kubernetes.io/nvidia-gpu")
"""The name of today, and that of the first operator's days: both ask for the same."""
VISIBLE = "CUDA_VISIBLE_DEVICES"
NONE = "-1"
"""CUDA's list ends at a device that does not exist."""
HELD = "tfjob/gpus"
"""Annotation of a pod: the GPUs that it has, such as `0,1`; empty if it may see none."""

_DEVICE = re.compile(r"nvidia\d+")


def found(environ: Mapping[str, str], root: Path = Path("/")) -> tuple[str, ...]:
    """The GPUs that the caller may use, as CUDA_VISIBLE_DEVICES calls them; `root` is where /proc and /dev are."""
    known = len(_entries(root / "proc/driver/nvidia/gpus"))
    count = known or sum(bool(_DEVICE.fullmatch(name)) for name in _entries(root / "dev")) or _listed(environ)
    if VISIBLE not in environ:
        return tuple(str(number) for number in range(count))
    usable = []
    for name in environ[VISIBLE].split(","):
        name = name.strip()
        if not name.startswith(("GPU-", "MIG-")) and not (name.isdecimal() and int(name) < count):
            break
        usable.append(name)
    return tuple(usable) if count else ()


def asked(container: Mapping[str, Any]) -> int:
    resources = container.get("resources") or {}
    groups = (resources.get("limits") or {}, resources.get("requests") or {})
    return max(_amount(group.get(name) or 0) for group in groups for name in RESOURCES)


def asked_by_pod(spec: Mapping[str, Any]) -> int:
    """How many a pod needs: what its containers use together, or one before them alone."""
    first = max((asked(container) for container in spec.get("initContainers") or ()), default=0)
    return max(first, sum(asked(container) for container in spec.get("containers") or ()))


def variables(pod: Pod, container: Mapping[str, Any]) -> dict[str, str]:
    """What makes a container see its share; nothing for a pod of a job that asks for no GPU."""
    if HELD not in pod.metadata.annotations:
        return {}
    held = [name for name in pod.metadata.annotations[HELD].split(",") if name]
    before = 0
    for one in pod.spec.get("containers") or ():
        if one.get("name") == container.get("name"):
            break
        before += asked(one)
    else:
        before = 0  # it runs before the others and may use what they will
    return {VISIBLE: ",".join(held[before : before + asked(container)]) or NONE}


def hold(store: Store, pod: Pod, available: Sequence[str], is_live: Callable[[Pod], bool]) -> Pod:
    """The pod with the GPUs that it asks for; without the annotation if not enough of them are free now.

    Those of its job that wait get theirs with it, all or none: two jobs that had a half each would wait for ever.
    `is_live` tells of a pod of any run whether it may still use what it has.
    """

    def change(everyone: list[Pod]) -> list[Pod]:
        holders = [one for one in everyone if HELD in one.metadata.annotations and is_live(one)]
        taken = {name for one in holders for name in one.metadata.annotations[HELD].split(",")}
        free = [name for name in available if name not in taken]
        waiting = _waiting_with(pod, everyone)
        if len(free) < _asked_together(waiting):
            return []
        return [_holding(one, [free.pop(0) for _ in range(asked_by_pod(one.spec))]) for one in waiting]

    if HELD in pod.metadata.annotations:
        return pod
    if not asked_by_pod(pod.spec):
        changed = store.change_pods(lambda everyone: [_holding(one, []) for one in everyone if _same(one, pod)])
    else:
        changed = store.change_pods(change)
    there = next((one for one in changed if _same(one, pod)), None)
    # Another one of its job may have taken them for it.
    return there or next((one for one in store.children(Pod, _owner(pod)) if _same(one, pod)), pod)


def waiting(pod: Pod, peers: Sequence[Pod], available: Sequence[str]) -> PodStatus:
    """The status of a pod for which not enough GPUs are free; `peers` are the pods of its job."""
    together = _waiting_with(pod, peers)
    others = f" for this replica and {len(together) - 1} more of its job" if len(together) > 1 else ""
    wanted = f"{_asked_together(together)} of this machine's {len(available)} GPUs"
    message = f"waiting for {wanted}{others}; other replicas use them"
    unscheduled = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message=message)
    return PodStatus(phase="Pending", conditions=[unscheduled])


def _waiting_with(pod: Pod, everyone: Sequence[Pod]) -> list[Pod]:
    """The pods of its job, itself among them, that ask for GPUs and have none yet."""
    return [
        one
        for one in everyone
        if _owner(one) == _owner(pod)
        and HELD not in one.metadata.annotations
        and one.metadata.deletion_timestamp is None
        and one.status.phase not in ("Succeeded", "Failed")
        and asked_by_pod(one.spec)
    ]


def _asked_together(pods: Sequence[Pod]) -> int:
    return sum(asked_by_pod(one.spec) for one in pods)


def _holding(pod: Pod, names: Sequence[str]) -> Pod:
    annotations = {**pod.metadata.annotations, HELD: ",".join(names)}
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))


def _owner(pod: Pod) -> str:
    return pod.metadata.owner_references[0].uid


def _same(one: Pod, other: Pod) -> bool:
    return one.metadata.uid == other.metadata.uid


def _amount(value: str | float) -> int:
    try:
        return quantity.whole(value)
    except ValueError:
        return 0  # judged elsewhere: the manifest itself is wrong


def _entries(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []


def _listed(environ: Mapping[str, str]) -> int:
    """What NVIDIA's own tool lists: on some systems, such as WSL, nothing else knows of them."""
    program = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if program is None:
        return 0
    try:
        listed = subprocess.run(
            [program, "--list-gpus"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=durations_from(environ).helper_program.total_seconds(),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines()) if listed.returncode == 0 else 0
