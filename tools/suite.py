"""Runs a suite of tests, and what fails in it once more, alone.

    python tools/suite.py COUNTS PYTHON [PYTEST_ARGUMENT]...

Several tests share few cores here with real servers and real clocks, so one that is right may lose a race that no user
runs. A test that fails, and passes when nothing else runs, is unsteady: both results are printed and it is counted as
such, to be mended. More than two in a suite are taken for what they are, a failure. To COUNTS a line is added: how many
passed, failed and were unsteady.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

PATIENCE_SECONDS = 1500
UNSTEADY_AT_MOST = 2


@dataclass(frozen=True)
class Result:
    """How a run of pytest ended, and the ids of the tests that passed and that did not."""

    code: int
    passed: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()


def main(counts: Path, python: str, arguments: list[str]) -> int:
    """Both runs; the exit code."""
    first = run(python, ["--quiet", "--durations=10", *arguments])
    failed, unsteady = first.failed, frozenset[str]()
    if 0 < len(failed) <= UNSTEADY_AT_MOST:
        print(f"== once more, alone: {' '.join(sorted(failed))}", flush=True)
        unsteady = failed & run(python, ["--quiet", *sorted(failed)]).passed
    for name in sorted(unsteady):
        print(f"UNSTEADY {name}: failed beside others, passed alone")
    broken = first.code not in (0, 1) or (first.code == 1 and not failed)  # it did not come to its end
    bad = len(failed - unsteady) or int(broken)
    with counts.open("a") as file:
        file.write(f"{len(first.passed | unsteady)} {bad} {len(unsteady)}\n")
    return int(bad > 0)


def run(python: str, arguments: list[str]) -> Result:
    """One run of pytest, whose output goes where ours goes."""
    with tempfile.TemporaryDirectory(prefix="tfjob-suite-") as folder:
        report = Path(folder, "report.xml")
        command = [python, "-m", "pytest", f"--junitxml={report}", *arguments]
        code = subprocess.run(["timeout", "--kill-after=10", str(PATIENCE_SECONDS), *command], check=False).returncode
        try:
            cases = ElementTree.parse(report).getroot().findall("testsuite/testcase")
        except (OSError, ElementTree.ParseError):
            return Result(code or 1)
    outcomes = [(name_of(case), {outcome.tag for outcome in case}) for case in cases]
    failed = frozenset(name for name, tags in outcomes if tags & {"failure", "error"})
    seen = frozenset(name for name, tags in outcomes if "skipped" not in tags)
    return Result(code, seen - failed, failed)


def name_of(case: ElementTree.Element) -> str:
    """What pytest calls a test, as `tests/at_once.py` notes it; a file that cannot be collected has no note."""
    noted = case.find("properties/property[@name='id']")
    return str(noted.get("value") if noted is not None else case.get("name"))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
