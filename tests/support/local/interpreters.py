"""Interpreters of a project that only exist as files, and the image of a container that runs with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tfjob.local.inputs import images
from tfjob.local.inputs.images import Runtime
from tfjob.local.state.config import Config


def fake_python(path: Path) -> Path:
    """Write a program that can be found, but does nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def resolve(container: dict[str, Any], config: Config, project: Path, python: Path | None = None) -> Runtime:
    """Resolve the image of a container."""
    return images.resolve({"name": "tensorflow", **container}, config, python=python, project=project)
