"""The control groups of a cluster's nodes, version 1 and 2.

    /tfjob-devcluster-NAME-KEY/NODE/room        containerd, kubelet, kube-proxy
    /tfjob-devcluster-NAME-KEY/NODE/kubepods    the pods

A group that holds processes is in use; the cleanup after killed runs leaves it alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path

from devcluster.state import Folder

CONTROLLERS = ("cpu", "cpuset", "memory", "pids", "io")


def make(cluster: Folder, node: str, first: int) -> str:
    """Create a node's groups in every hierarchy and move its first process there; return their name for the kubelet."""
    for root in hierarchies():
        group = root
        for name in (_name(cluster), node, "room"):
            _hand_down(group)
            group /= name
            group.mkdir(exist_ok=True)
            _inherit(group)
        (group / "cgroup.procs").write_text(str(first))
    return f"/{_name(cluster)}/{node}"


def remove(cluster: Folder) -> None:
    """Remove a cluster's groups after its processes ended; the kernel takes a moment to notice."""
    deadline = time.monotonic() + 5
    while left := [root / _name(cluster) for root in hierarchies() if (root / _name(cluster)).exists()]:
        for group in left:
            for folder, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
        if time.monotonic() > deadline:
            return
        time.sleep(0.02)


def hierarchies() -> list[Path]:
    fields = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [Path(words[4]) for words in fields if words[words.index("-") + 1] in ("cgroup", "cgroup2")]


def _name(cluster: Folder) -> str:
    """Return a name that is unique across users: their clusters may have the same name."""
    return f"tfjob-devcluster-{cluster.name}-{hashlib.sha256(bytes(cluster.path)).hexdigest()[:8]}"


def _hand_down(group: Path) -> None:
    """Let the child groups use each available controller (version 2)."""
    control = group / "cgroup.subtree_control"
    if control.exists():
        for name in CONTROLLERS:
            with contextlib.suppress(OSError):
                control.write_text(f"+{name}")


def _inherit(group: Path) -> None:
    """Copy the parent's processors and memory nodes (version 1): a new group has none, so no process could enter it."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        own = group / name
        if own.exists() and not own.read_text().strip():
            own.write_text((group.parent / name).read_text())
