"""Programs in the style of tutorials, unchanged: they train, their output is readable, and no process is left."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from support.installed import Installed
from support.running import processes_of, status, wait_until
from support.training.tutorials import PROGRAMS, TUTORIALS, check_output

pytestmark = [pytest.mark.long, pytest.mark.tensorflow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_trains_prints_readable_lines_and_ends(
    tool: Installed, home: Path, tmp_path: Path, name: str
) -> None:
    """The output of the run and the stored logs have the same lines."""
    tutorial = TUTORIALS[name]
    folder = shutil.copytree(PROGRAMS, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__"))
    words = ("run", "--name", "tutorial", "--python", sys.executable, *tutorial.words)
    done = tool.tfjob(home, *words, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    wait_until(lambda: not processes_of(home), 60, lambda: f"left: {processes_of(home)}")
    assert status(tool, home, "tutorial")["restarts"] == (name == "backup")
    for teller in tutorial.tellers:
        said = [line.partition("| ")[2] for line in done.stdout.split("\n") if line.split(" | ")[0].strip() == teller]
        check_output(tutorial, teller, said)
        assert ("epochs [2, 3]" in said) is (name == "backup")
        if name != "backup":  # the command shows the logs of the last attempt
            assert tool.tfjob(home, "logs", "tutorial", teller).stdout.split("\n")[:-1] == said
