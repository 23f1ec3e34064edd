"""SavedModels for tests: written once for all test processes of a run."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("export_models.py")


def saved_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that export_models.py describes; the first test process that asks writes it."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    folder = shared / "saved-models"
    with (shared / "saved-models.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            part = shared / "saved-models.part"
            done = subprocess.run(
                [sys.executable, str(PROGRAM), str(part)],
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            part.rename(folder)
    return folder


def publish(source: Path, base: Path, version: int) -> Path:
    """Copy a SavedModel to a version of a model, which appears at once."""
    base.mkdir(parents=True, exist_ok=True)
    part = base / f"{version}.tmp"
    shutil.copytree(source, part)
    return part.rename(base / str(version))
