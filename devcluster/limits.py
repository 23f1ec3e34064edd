"""The one setting of the machine that nodes change, for as long as there are any.

A kubelet watches files with a dozen inotify instances, of which a user gets 128 in all: too few for three nodes beside
a desktop. The limit cannot be had for a room alone, so it is raised with the first cluster and put back with the last.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from devcluster import network, state

LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
ENOUGH = 1024
NOTE = Path("/run/tfjob-devcluster")
"""A folder that the next boot empties, like the setting itself; it holds the value from before."""


BEFORE = NOTE / LIMIT.name


def lift() -> None:
    """Raises the limit, unless it is high enough or not ours to change."""
    with state.locked(NOTE):
        now = LIMIT.read_text()
        if int(now) < ENOUGH:
            BEFORE.write_text(now)
            with contextlib.suppress(OSError):  # a container may only read it
                LIMIT.write_text(str(ENOUGH))


def put_back() -> None:
    """Restores the limit, unless a cluster is still there: one has a link."""
    if NOTE.exists():
        with state.locked(NOTE):
            if any(link.name.startswith(network.PREFIX) for link in Path("/sys/class/net").iterdir()):
                return
            if BEFORE.exists():
                with contextlib.suppress(OSError):
                    LIMIT.write_text(BEFORE.read_text())
                BEFORE.unlink()
            NOTE.rmdir()
