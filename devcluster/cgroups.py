"""The control groups of a cluster's nodes, version 1 and 2.

    /tfjob-devcluster-NAME-KEY/NODE/room        containerd, kubelet, kube-proxy
    /tfjob-devcluster-NAME-KEY/NODE/kubepods    the pods

A group with processes is one at work: whoever clears up after killed runs leaves it alone.
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
    """A node's groups in every hierarchy, with its first process in them; their name for the kubelet."""
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
    """Removes a cluster's groups, whose processes have ended; the kernel takes a moment to notice."""
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
    """The mount points of all control group hierarchies."""
    fields = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [Path(words[4]) for words in fields if words[words.index("-") + 1] in ("cgroup", "cgroup2")]


def _name(cluster: Folder) -> str:
    """Clusters of different users may have the same name."""
    return f"tfjob-devcluster-{cluster.name}-{hashlib.sha256(bytes(cluster.path)).hexdigest()[:8]}"


def _hand_down(group: Path) -> None:
    """Version 2: lets the groups below use the controllers, one by one, as far as they are there."""
    control = group / "cgroup.subtree_control"
    if control.exists():
        for name in CONTROLLERS:
            with contextlib.suppress(OSError):
                control.write_text(f"+{name}")


def _inherit(group: Path) -> None:
    """Version 1: a new group may use no processor and no memory, so that nothing could enter it."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        own = group / name
        if own.exists() and not own.read_text().strip():
            own.write_text((group.parent / name).read_text())
