"""Where a run came from: the commit of its code, the packages of its interpreter, tfjob's version, the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tfjob import __version__
from tfjob.durations import durations_from
from tfjob.local.state.home import boot_id

PROVENANCE_FILE, PACKAGES_FILE = "provenance.json", "packages.json"
LIST_PACKAGES = r"""
import json, os, re, sys
found = {}
for folder in filter(os.path.isdir, sys.path):
    for entry in os.listdir(folder):
        if parts := re.fullmatch(r"(.+?)-(\d[^-]*)(-.*)?\.(dist|egg)-info", entry):
            found.setdefault(re.sub(r"[-_.]+", "-", parts[1]).lower(), parts[2])
json.dump(found, open(sys.argv[1], "w"), indent=1, sort_keys=True)
"""
"""A program for the run's interpreter. It only reads file names: importlib.metadata reads a file for each package and
takes four times as long, while the replicas start."""


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """What is recorded when a run starts; a background process writes the packages to another file."""

    tfjob: str
    python: str
    interpreter: str
    machine: str
    command: list[str]
    project: str
    submitted: datetime
    boot: str
    commit: str = ""
    dirty: bool = False


def provenance(project: Path, interpreter: Path) -> Provenance:
    commit = _git(project, "rev-parse", "HEAD")
    system = os.uname()
    return Provenance(
        tfjob=__version__,
        python=sys.version.partition(" ")[0],
        interpreter=str(interpreter),
        machine=f"{system.sysname}-{system.release}-{system.machine}",
        command=list(sys.argv),
        project=str(project),
        submitted=datetime.now(UTC),
        boot=boot_id(),
        commit=commit,
        dirty=bool(commit and _git(project, "status", "--porcelain", "--untracked-files=no")),
    )


def list_packages(run_folder: Path) -> subprocess.Popen[bytes] | None:
    """Start writing the packages of a run's interpreter with their versions; None if they are already written."""
    file = run_folder / PACKAGES_FILE
    if file.exists():
        return None
    origin = msgspec.json.decode((run_folder / PROVENANCE_FILE).read_bytes(), type=Provenance)
    try:
        return subprocess.Popen(
            [origin.interpreter, "-I", "-c", LIST_PACKAGES, str(file)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None  # the interpreter is gone; the replicas report that


def _git(folder: Path, *words: str) -> str:
    seconds = durations_from(os.environ).helper_program.total_seconds()
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=seconds, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
