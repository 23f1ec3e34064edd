"""Releases as tools/release.py makes them: of these sources, and of the same with another version."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from support.conformance.standin_image import interpreter
from tfjob import __version__

ROOT = Path(__file__).parents[2]
NEXT = "0.2.0"
"""A version after this one."""
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "src", "tools", "devcluster", "charts")


def release(output: Path, *words: str, sources: Path = ROOT) -> str:
    """Makes a release of sources into a folder; returns what the command printed."""
    return _run(sources, "release.py", "--output", str(output), *words)


def release_with_operator(output: Path, sources: Path = ROOT) -> None:
    """The same with the operator's image, whose interpreter is taken from the cache as it was made before."""
    release(output, "--images", "operator", "--base", str(interpreter()), sources=sources)


def next_version(folder: Path) -> Path:
    """A copy of the sources whose version is the next one."""
    folder.mkdir(exist_ok=True)
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    for name in ("pyproject.toml", "src/tfjob/__init__.py"):
        file = folder / name
        file.write_text(file.read_text().replace(f'"{__version__}"', f'"{NEXT}"', 1))
    _run(folder, "chart.py")
    return folder


def _run(sources: Path, tool: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, str(sources / "tools" / tool), *words],
        # The package of these sources, not the one that is installed.
        env={**os.environ, "PYTHONPATH": str(sources / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
