"""The driver of a run, as other processes see it: whether it is needed, whether it runs, and how to start it.

A driver holds a lock that the kernel releases with its last holder, so the lock never outlives a crash. Every command
uses this module, so it must stay quick to import.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tfjob.controller.kind import Kind, Suspendable
from tfjob.local.sandbox import pod_files
from tfjob.local.state.home import Home, boot_id
from tfjob.local.state.store import Run, Store, edit, marked_for_deletion

PROGRAM = "tfjob.launch.background"
"""The module of the background driver: it imports every kind, which this module must not."""
LOCK = "controller.lock"
DRIVER_LOG = "controller.log"
PATIENCE_SECONDS = 0.5
STEP_SECONDS = 0.01


def needs_driver(run: Run) -> bool:
    """Return whether something is left to do, as the last driver recorded; edits and the end of a TTL reset that."""
    return run.settled_until is None or run.settled_until <= time.time()


def is_driven(run: Run) -> bool:
    try:
        return pod_files.is_locked(str(run.root_folder / LOCK))
    except OSError:
        return False


def is_interrupted(run: Run) -> bool:
    """Return whether a run has lost the process, or the boot, that kept it alive."""
    lost = run.current and needs_driver(run) and (run.attached or run.boot != boot_id())
    return lost and not is_driven(run)


def suspend(store: Store, uid: str, kind: Kind[Any], reason: str) -> None:
    """Suspend the owner of a run so that it can be resumed; delete it if its kind cannot be suspended."""
    run = store.run(uid)
    if run is None or kind.is_finished(run.decode(kind.owner_type)):
        return
    if isinstance(kind, Suspendable):
        suspendable = kind
        store.update(uid, edit(kind.owner_type, lambda owner: suspendable.suspended(owner, reason)))
    else:
        store.update(uid, marked_for_deletion)


def start_background(home: Home, run: Run, lock: int | None = None) -> bool:
    """Start a driver in the background, which inherits the lock; return False if the root of the run has a driver."""
    lock = acquire_driver_lock(run.root_folder) if lock is None else lock
    if lock is None:
        return False
    try:
        with (run.root_folder / DRIVER_LOG).open("ab") as log:
            _children[:] = [child for child in _children if child.poll() is None]
            process = subprocess.Popen(
                [sys.executable, "-m", PROGRAM, str(home.path), run.root, str(lock)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                pass_fds=[lock],
            )
            _children.append(process)
    finally:
        os.close(lock)
    return True


_children: list[subprocess.Popen[bytes]] = []
"""The drivers that this process started, to reap them: a program may submit many jobs."""


def acquire_driver_lock(folder: Path) -> int | None:
    """Return the descriptor of the lock, held until every process closes it; None if another process holds it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (lock := pod_files.take_lock(str(folder / LOCK))) is None and time.monotonic() < deadline:
        time.sleep(STEP_SECONDS)  # a process that checks whether the lock is taken holds it for a moment
    return lock
