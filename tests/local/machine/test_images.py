"""What `python` means to the program of an image."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.local.interpreters import fake_python, resolve
from tfjob.local.inputs import images
from tfjob.local.state.config import Config


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    return tmp_path


def test_python_and_python3_always_mean_the_chosen_interpreter(project: Path) -> None:
    """A folder with python3.11 alone, or beside another python3, gets links that stand first on PATH."""
    chosen = project / "bin/python3.11"
    chosen.parent.mkdir()
    chosen.symlink_to(os.path.realpath(sys.executable))
    fake_python(project / "bin/python3")
    made = resolve({"image": "x", "command": ["python"]}, Config(), project, python=chosen)
    assert made.links == ("python", "python3")
    folder = images.write_links(made, project / "links")
    for name in made.links:
        out = subprocess.run(
            [name, "-c", "import sys; print(sys.version_info[:2])"],
            env={"PATH": f"{folder}:{project / 'bin'}"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert out.stdout.strip() == str(sys.version_info[:2])
