"""Clusters: start, stop, share among tests, sweep."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from devcluster import build, node, nodes, parts, state
from devcluster.cache import say
from devcluster.client import Client
from devcluster.control_plane import ControlPlane
from devcluster.errors import Refused
from devcluster.state import Folder

CONTROL_PLANE, NODE = "control-plane", "node"
DEFAULT = "default"


@dataclass(frozen=True)
class Shape:
    """What a cluster consists of."""

    profile: str = CONTROL_PLANE
    nodes: int = 0

    @classmethod
    def of(cls, profile: str, nodes: int | None) -> Shape:
        if profile == CONTROL_PLANE:
            if nodes:
                raise Refused("--nodes needs --profile node: the control-plane profile has no nodes")
            return cls()
        if not 1 <= (nodes or 1) <= 9:
            raise Refused("--nodes must be between 1 and 9")
        if os.geteuid():
            raise Refused("--profile node needs root for namespaces and control groups; run it with sudo")
        return cls(NODE, nodes or 1)

    def __str__(self) -> str:
        return f"{self.nodes} node{'s' * (self.nodes > 1)}" if self.nodes else "control plane only"


def up(name: str, shape: Shape) -> Client:
    folder = Folder(name)
    if name not in state.names() or not is_up(folder):
        prepare(shape)
    with folder.locked():
        if not is_up(folder):
            start(folder, shape)
        elif folder.read("shape") != [shape.profile, shape.nodes]:
            was = Shape(*folder.read("shape"))
            raise Refused(
                f"cluster {name} is up with {was}; stop it with `down --name {name}`, or choose another --name"
            )
    return client(folder)


def down(name: str) -> bool:
    """Stop a cluster and remove its folder; return False if there was none."""
    folder = Folder(name)
    if name not in state.names():
        return False
    with folder.locked():
        clear(folder)
        folder.remove()
    return True


def attach(name: str) -> Client:
    folder = Folder(name)
    if name not in state.names() or not is_up(folder):
        raise Refused(f"cluster {name} is not up; start it with `python -m devcluster up --name {name}`")
    return client(folder)


@contextlib.contextmanager
def shared(name: str, shape: Shape) -> Iterator[Client]:
    """Yield a cluster that several processes share: the first starts it, the last stops it.

    `sweep` removes it if all of them were killed.
    """
    prepare(shape)
    folder = Folder(name)
    with folder.locked():
        if not is_up(folder):
            if _in_use(folder):
                raise Refused(f"cluster {name} is broken while other processes use it; its logs are in {folder.logs}")
            start(folder, shape)
        users = _use(folder)
    try:
        yield client(folder)
    finally:
        users.close()
        with folder.locked():
            if not _in_use(folder):
                clear(folder)
                folder.remove()


def sweep() -> list[str]:
    """Remove clusters that a killed command or test run left: those without users or without processes."""
    swept = []
    for name in state.names():
        folder = Folder(name)
        with folder.locked():
            abandoned = not _in_use(folder) if (folder / "users").exists() else not folder.processes()
            if abandoned:
                clear(folder)
                folder.remove()
                swept.append(name)
    return swept


def prepare(shape: Shape) -> None:
    build.programs(parts.CONTROL_PLANE)
    if shape.nodes:
        nodes.prepare()


def start(folder: Folder, shape: Shape) -> None:
    """Start a cluster in a folder that may hold the remains of another one."""
    began = time.monotonic()
    clear(folder)
    folder.write("shape", [shape.profile, shape.nodes])
    try:
        if shape.nodes:
            nodes.start(folder, shape.nodes)
        else:
            ControlPlane(folder, build.programs(parts.CONTROL_PLANE)).start()
    except BaseException:
        clear(folder)
        folder.remove()
        raise
    folder.write("up", True)
    say(f"cluster {folder.name}: up in {time.monotonic() - began:.1f} s ({shape})")


def clear(folder: Folder) -> None:
    """End everything that a cluster started and empty its folder; the caller holds the lock."""
    folder.end_processes()
    nodes.clear(folder)
    folder.empty()


def is_up(folder: Folder) -> bool:
    """Return whether the start completed and the control plane is alive; nodes may have lost power."""
    own = [one for one in folder.started() if not one.name.startswith(node.PREFIX)]
    return bool(folder.read("up")) and all(one.alive() for one in own)


def client(folder: Folder) -> Client:
    return Client(folder / "kubeconfig", build.binaries(parts.KUBE), folder)


def _use(folder: Folder) -> IO[str]:
    """Return a handle that marks the cluster as in use until it is closed or its process ends."""
    users = (folder / "users").open("w")
    fcntl.flock(users, fcntl.LOCK_SH)
    return users


def _in_use(folder: Folder) -> bool:
    try:
        with (folder / "users").open() as users:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
