"""A run of several processes whose tests would not stay in their groups ends before its first test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
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
    command = [sys.executable, "-m", "pytest", "-p", "at_once", "-n1", "--dist=loadgroup", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(TESTS)}, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout
    assert "INTERNALERROR" not in done.stdout
    assert ("1 passed" in done.stdout) == (code == 0)
