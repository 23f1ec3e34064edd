"""The only machine-wide setting that nodes change, while there are any.

A kubelet watches files with a dozen inotify instances, and a user has 128 in all: too few for three nodes on a desktop.
A namespace cannot have its own limit, so the first cluster raises it and the last one restores it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from devcluster import network, state

LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
ENOUGH = 1024
NOTE = Path("/run/tfjob-devcluster")
"""A folder with the previous value; the next boot empties it and resets the limit."""

BEFORE = NOTE / LIMIT.name


def lift() -> None:
    """Raise the limit, unless it is high enough or this process may not change it."""
    with state.locked(NOTE):
        now = LIMIT.read_text()
        if int(now) < ENOUGH:
            BEFORE.write_text(now)
            with contextlib.suppress(OSError):  # in a container it is read-only
                LIMIT.write_text(str(ENOUGH))


def put_back() -> None:
    """Restore the limit, unless a cluster is still up (it would have a link)."""
    if NOTE.exists():
        with state.locked(NOTE):
            if any(link.name.startswith(network.PREFIX) for link in Path("/sys/class/net").iterdir()):
                return
            if BEFORE.exists():
                with contextlib.suppress(OSError):
                    LIMIT.write_text(BEFORE.read_text())
                BEFORE.unlink()
            NOTE.rmdir()
