"""The right to drive a run: a lock that the kernel frees with its last holder, so that it never outlives a crash."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from tfjob.local import pod_files

NAME = "controller.lock"
PATIENCE_SECONDS = 0.5
STEP_SECONDS = 0.01


def take(folder: Path) -> int | None:
    """The descriptor that holds the right until it is closed in every process; None when another process has it."""
    descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Somebody who only looks whether it is taken holds it for an instant too.
            if time.monotonic() > deadline:
                os.close(descriptor)
                return None
            time.sleep(STEP_SECONDS)
        else:
            return descriptor


def is_taken(folder: Path) -> bool:
    """Whether some process drives the run now."""
    try:
        return pod_files.is_locked(str(folder / NAME))
    except OSError:
        return False
