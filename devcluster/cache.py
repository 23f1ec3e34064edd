"""The user's cache: one folder per built thing, named after its version."""

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
    own = os.environ.get("TFJOB_DEVCLUSTER_CACHE")
    if own:
        return Path(own).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tfjob-devcluster"


def built(name: str, make: Callable[[Path], None]) -> Path:
    """Return the folder of that name; if it does not exist, `make` fills it while other processes wait.

    `make` gets the folder under its final name, because a virtualenv cannot be moved. An interrupted build has no
    `.complete` file, so the next one starts over.
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
    """Return a temporary folder for a build; remove those that killed builds left more than a day ago."""
    root().mkdir(parents=True, exist_ok=True)
    for old in root().glob("build-*"):
        if time.time() - old.stat().st_mtime > DAY:
            shutil.rmtree(old, ignore_errors=True)
    return tempfile.TemporaryDirectory(prefix="build-", dir=root())


def say(line: str) -> None:
    """Print progress for people to stderr: a shell evaluates standard output."""
    print(line, file=sys.stderr, flush=True)
