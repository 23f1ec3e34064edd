"""The driving of a run, seen from outside: who has the right to do it, whether it is needed, how to start it.

The right is a lock that the kernel frees with its last holder, so that it never outlives a crash. The process that
drives is `driver.py`; every command looks from here, so this module must stay quick to import.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from tfjob.api.objects import Pod, Service
from tfjob.api.types import TFJob
from tfjob.local.sandbox import pod_files
from tfjob.local.state.home import Home, boot_id
from tfjob.local.state.store import Run, Store
from tfjob.plan.facts.conditions import SUSPENDED, is_finished
from tfjob.plan.facts.tasks import Observed, split_tensorboard
from tfjob.plan.policy.cleanup import cleanup
from tfjob.plan.policy.limits import expiry
from tfjob.plan.policy.suspension import INTERRUPTED, suspended

LOCK = "controller.lock"
PATIENCE_SECONDS = 0.5
STEP_SECONDS = 0.01


def is_settled(store: Store, uid: str) -> bool:
    """Whether a run needs nobody to drive it: gone, ended and cleaned up, or suspended with nothing running.

    Nobody waits for the time to live of a job to be over: the first command afterwards sees that it goes.
    """
    run = store.run(uid)
    return run is None or is_job_settled(store, run.job, current=run.current)


def is_job_settled(store: Store, job: TFJob, *, current: bool) -> bool:
    """As `is_settled`, of a job that was read already."""
    uid = job.metadata.uid
    if not current:
        return not store.children(Pod, uid)
    if job.metadata.deletion_timestamp is not None:
        return False
    pods = store.children(Pod, uid)
    if any(pod.metadata.deletion_timestamp for pod in pods):
        return False
    if is_finished(job.status):
        expires = expiry(job, job.status)
        expired = expires is not None and expires <= datetime.now(UTC) and not job.spec.run_policy.suspend
        replicas, _ = split_tensorboard(job, Observed(pods=pods, services=store.children(Service, uid)))
        return not (expired or cleanup(job, replicas))
    return job.spec.run_policy.suspend and job.status.state == SUSPENDED and not pods


def is_driven(run: Run) -> bool:
    """Whether some process drives the run now."""
    try:
        return pod_files.is_locked(str(run.folder / LOCK))
    except OSError:
        return False


def is_interrupted(run: Run) -> bool:
    """Whether a run was cut off with the process, or the boot, that kept it alive."""
    unfinished = run.current and not is_finished(run.job.status) and not run.job.spec.run_policy.suspend
    return unfinished and (run.attached or run.boot != boot_id()) and not is_driven(run)


def ensure_driven(home: Home, store: Store, run: Run) -> bool:
    """Sees to it that a run gets what it needs: a background driver, if it needs one and has none.

    What was cut off is not revived: it becomes Suspended, and the driver only puts it to rest.
    """
    uid = run.job.metadata.uid
    if is_interrupted(run):
        store.update_job(uid, lambda job: suspended(job, INTERRUPTED))
    if is_settled(store, uid) or is_driven(run):
        return False
    return start_background(home, run)


def start_background(home: Home, run: Run, lock: int | None = None) -> bool:
    """Starts a process that drives the run and belongs to nobody; False when another process drives it already.

    That process is born with the lock, so that nobody else starts one meanwhile.
    """
    lock = acquire_driver_lock(run.folder) if lock is None else lock
    if lock is None:
        return False
    try:
        with (run.folder / "controller.log").open("ab") as log:
            _reap()
            process = subprocess.Popen(
                [sys.executable, "-m", "tfjob.local.run.driver", str(home.path), run.job.metadata.uid, str(lock)],
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
"""The drivers that this process started: a program that submits many jobs must not gather zombies."""


def _reap() -> None:
    _children[:] = [process for process in _children if process.poll() is None]


def acquire_driver_lock(folder: Path) -> int | None:
    """The descriptor that holds the right until it is closed in every process; None when another process has it."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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


def is_expired(run: Run) -> bool:
    """Whether the time to live of a finished job is over; its record stays."""
    until = expiry(run.job, run.job.status)
    return until is not None and until <= datetime.now(UTC)
