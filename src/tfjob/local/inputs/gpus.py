"""The NVIDIA GPUs of this machine: which exist, which pods request them, and which pod has which.

A replica sees its GPUs through CUDA_VISIBLE_DEVICES. An annotation of its pod names them, so that every driver knows
which GPUs are free.
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tfjob.api import quantity
from tfjob.api.objects import Pod, PodCondition, PodStatus
from tfjob.durations import durations_from
from tfjob.local.state.store import Store

RESOURCES = ("nvidia.com/gpu", "alpha.kubernetes.io/nvidia-gpu")
"""The current name and the name from 2017, with the same meaning."""
VISIBLE = "CUDA_VISIBLE_DEVICES"
NONE = "-1"
"""CUDA's list ends at a device that does not exist."""
HELD = "tfjob/gpus"
"""Annotation of a pod: the GPUs that it has, such as `0,1`; empty if it may see none."""

_DEVICE = re.compile(r"nvidia\d+")


def found(environ: Mapping[str, str], root: Path = Path("/")) -> tuple[str, ...]:
    """Return the GPUs that the caller may use, as CUDA_VISIBLE_DEVICES names them; `root` contains /proc and /dev."""
    known = len(list((root / "proc/driver/nvidia/gpus").glob("*")))
    count = known or sum(bool(_DEVICE.fullmatch(path.name)) for path in (root / "dev").glob("*")) or _listed(environ)
    if VISIBLE not in environ:
        return tuple(str(number) for number in range(count))

    def exists(name: str) -> bool:
        return name.startswith(("GPU-", "MIG-")) or (name.isdecimal() and int(name) < count)

    names = (name.strip() for name in environ[VISIBLE].split(","))
    return tuple(takewhile(exists, names)) if count else ()


def asked(container: Mapping[str, Any]) -> int:
    resources = container.get("resources") or {}
    groups = (resources.get("limits") or {}, resources.get("requests") or {})
    return math.ceil(max(quantity.amount_or_zero(group.get(name) or 0) for group in groups for name in RESOURCES))


def asked_by_pod(spec: Mapping[str, Any]) -> int:
    """Return how many GPUs a pod needs: the sum over its containers, or the most that one init container needs."""
    first = max((asked(container) for container in spec.get("initContainers") or ()), default=0)
    return max(first, sum(asked(container) for container in spec.get("containers") or ()))


def variables(pod: Pod, container: Mapping[str, Any]) -> dict[str, str]:
    """Return the variable that shows a container its GPUs; none if no pod of its job requests any."""
    if HELD not in pod.metadata.annotations:
        return {}
    held = [name for name in pod.metadata.annotations[HELD].split(",") if name]
    containers = pod.spec.get("containers") or ()
    # An init container may use the GPUs of all containers.
    earlier = takewhile(lambda one: one != container, containers) if container in containers else ()
    before = sum(map(asked, earlier))
    return {VISIBLE: ",".join(held[before : before + asked(container)]) or NONE}


def hold(store: Store, pod: Pod, available: Sequence[str], is_live: Callable[[Pod], bool]) -> Pod:
    """Return the pod with the GPUs that it requests; without the annotation if not enough GPUs are free now.

    All waiting pods of its job get their GPUs together or not at all, because two jobs with half of theirs each would
    wait forever. `is_live` returns whether a pod of any run may still use its GPUs.
    """

    if HELD in pod.metadata.annotations:
        return pod

    def change(everyone: list[Pod]) -> list[Pod]:
        if not asked_by_pod(pod.spec):
            return [_holding(one, []) for one in everyone if _same(one, pod)]
        holders = [one for one in everyone if HELD in one.metadata.annotations and is_live(one)]
        taken = {name for one in holders for name in one.metadata.annotations[HELD].split(",")}
        free = [name for name in available if name not in taken]
        waiting = _waiting_with(pod, everyone)
        if len(free) < _asked_together(waiting):
            return []
        return [_holding(one, [free.pop(0) for _ in range(asked_by_pod(one.spec))]) for one in waiting]

    there = next((one for one in store.change_pods(change) if _same(one, pod)), None)
    # Another pod of the job may have taken this pod's GPUs together with its own.
    return there or next((one for one in store.children(Pod, _owner(pod)) if _same(one, pod)), pod)


def waiting(pod: Pod, peers: Sequence[Pod], available: Sequence[str]) -> PodStatus:
    together = _waiting_with(pod, peers)
    others = f" for this replica and {len(together) - 1} more of its job" if len(together) > 1 else ""
    wanted = f"{_asked_together(together)} of this machine's {len(available)} GPUs"
    message = f"waiting for {wanted}{others}; other replicas use them"
    unscheduled = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message=message)
    return PodStatus(phase="Pending", conditions=[unscheduled])


def _waiting_with(pod: Pod, everyone: Sequence[Pod]) -> list[Pod]:
    """Return the pods of the same job, including this one, that request GPUs and have none yet."""
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


def _listed(environ: Mapping[str, str]) -> int:
    """Count the GPUs that nvidia-smi lists: on some systems, such as WSL, nothing else knows about them."""
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
