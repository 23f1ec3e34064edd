"""The user's cache: one folder for each thing that is made once, named by its version."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

DAY = 24 * 3600.0


def root() -> Path:
    """Where the cache is: TFJOB_DEVCLUSTER_CACHE, or a folder in the user's cache."""
    own = os.environ.get("TFJOB_DEVCLUSTER_CACHE")
    if own:
        return Path(own).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tfjob-devcluster"


def built(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of that name, made by `make` if it is not there; whoever comes meanwhile waits.

    `make` gets the folder under its final name, because a virtualenv cannot be moved; a build that was cut off left no
    mark of its end, so the next one starts anew.
    """
    folder = root() / name
    done = folder / ".complete"
    if done.exists():
        return folder
    root().mkdir(parents=True, exist_ok=True)
    with (root() / f"{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{name}: waiting for another process that is building it ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for the time of a build; those of builds that were killed go when they are a day old."""
    root().mkdir(parents=True, exist_ok=True)
    for old in root().glob("build-*"):
        if time.time() - old.stat().st_mtime > DAY:
            shutil.rmtree(old, ignore_errors=True)
    return tempfile.TemporaryDirectory(prefix="build-", dir=root())


def say(line: str) -> None:
    """Progress for a person; standard output is for what a shell evaluates."""
    print(line, file=sys.stderr, flush=True)


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._begin = time.monotonic()

    def __str__(self) -> str:
        return f"{time.monotonic() - self._begin:.1f} s"
