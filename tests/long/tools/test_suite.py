"""A suite whose tests fail: what passes alone is unsteady, within a bound; what does not has failed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

TOOL = Path(__file__).parents[3] / "tools" / "suite.py"
ALONE = "import os\nALONE = 'PYTEST_XDIST_WORKER' not in os.environ\n"


def suite(folder: Path, *tests: str) -> tuple[int, str, str]:
    """Runs tests, several at once as CI does; the exit code, the line of counts, the output."""
    (folder / "conftest.py").write_text("pytest_plugins = ['support.at_once']\n")
    (folder / "test_some.py").write_text("\n".join([ALONE, *tests]))
    counts = folder / "counts"
    command = [sys.executable, str(TOOL), str(counts), "90", sys.executable, "-n", "2", "--dist", "loadgroup"]
    command.append("test_some.py")
    # It is no part of the run that this test is of, and has folders of its own: pytest closes those to all others.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environ |= {"TMPDIR": str(folder), "PYTHONPATH": str(TOOL.parents[1] / "tests")}
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder, env=environ, timeout=100)
    return done.returncode, counts.read_text(), done.stdout + done.stderr


def unsteady(name: str) -> str:
    return f"def test_{name}():\n    assert ALONE\n"


GOOD = "def test_good():\n    pass\n"
IN_A_CLASS = """
import pytest

class TestMany:
    @pytest.mark.parametrize("case", ["a.b", "c"])
    def test_one(self, case):
        assert ALONE or case == "c"
"""


@pytest.mark.parametrize(
    ("tests", "code", "counts", "said"),
    [
        pytest.param([GOOD], 0, "1 0 0\n", "1 passed", id="all pass"),
        pytest.param(
            [GOOD, unsteady("race")],
            0,
            "2 0 1\n",
            "UNSTEADY test_some.py::test_race: failed alongside others, passed alone",
            id="one passes alone",
        ),
        pytest.param(
            [IN_A_CLASS],
            0,
            "2 0 1\n",
            "UNSTEADY test_some.py::TestMany::test_one[a.b]",
            id="a case of a test in a class passes alone",
        ),
        pytest.param(
            [GOOD, unsteady("race"), "def test_bad():\n    assert not ALONE and False\n"],
            1,
            "2 1 1\n",
            "UNSTEADY test_some.py::test_race",
            id="one fails alone too",
        ),
        pytest.param(
            [GOOD, *(unsteady(name) for name in "abc")], 1, "1 3 0\n", "3 failed, 1 passed", id="more than two"
        ),
        pytest.param(["import nothing_like_this"], 1, "0 1 0\n", "No module named", id="a file that cannot be read"),
    ],
)
def test_a_test_that_fails_runs_once_more_alone(
    tmp_path: Path, tests: list[str], code: int, counts: str, said: str
) -> None:
    ended, counted, shown = suite(tmp_path, *tests)
    assert said in shown
    assert (ended, counted) == (code, counts), shown
