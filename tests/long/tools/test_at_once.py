"""A run of several processes: its tests stay in their groups, and those that run alone come last."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

TESTS = Path(__file__).parents[2]
BLIND = """
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session):
    for item in session.items:
        item._nodeid = item.nodeid.partition("@")[0]
"""


@pytest.mark.parametrize(("plugin", "code", "said"), [(BLIND, 4, "does not show pytest-xdist its groups"), ("", 0, "")])
def test_groups_that_are_not_seen_end_the_run_with_one_message(
    tmp_path: Path, plugin: str, code: int, said: str
) -> None:
    (tmp_path / "conftest.py").write_text(plugin)
    (tmp_path / "test_one.py").write_text("def test_one():\n    pass\n")
    done = run(tmp_path)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout
    assert "INTERNALERROR" not in done.stdout
    assert ("1 passed" in done.stdout) == (code == 0)


def test_a_group_that_runs_alone_comes_last_though_it_is_the_largest(tmp_path: Path) -> None:
    alone = "import pytest\n\npytestmark = pytest.mark.alone\n"
    (tmp_path / "test_alone.py").write_text(alone + "".join(f"def test_{one}(): pass\n" for one in ("a", "b", "c")))
    (tmp_path / "test_beside.py").write_text("def test_d(): pass\n")
    shown = [line for line in run(tmp_path, "-v").stdout.splitlines() if "PASSED" in line]
    assert len(shown) == 4
    assert "test_beside" in shown[0], shown


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs the tests of a folder in a process beside."""
    command = [sys.executable, "-m", "pytest", "-p", "support.at_once", "-n1", "--dist=loadgroup"]
    command += ["-p", "no:cacheprovider"]
    env = {"PYTHONPATH": str(TESTS), "TMPDIR": str(folder)}  # pytest closes the folder that it makes there to others
    return subprocess.run([*command, *words], cwd=folder, env=env, capture_output=True, text=True)
