"""Runs a suite of tests, and what fails in it once more, alone.

    python tools/suite.py COUNTS PYTHON [PYTEST_ARGUMENT]...

Several tests share few cores here with real servers and real clocks, so one that is right may lose a race that no user
runs. A test that fails, and passes when nothing else runs, is unsteady: both results are printed and it is counted as
such, to be mended. More than two in a suite are taken for what they are, a failure. To COUNTS a line is added: how many
passed, failed and were unsteady.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

PATIENCE_SECONDS = 1500
UNSTEADY_AT_MOST = 2
GROUP = re.compile(r"@[\w.-]+$")
"""What pytest-xdist adds to the name of a test: its group."""


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
    """What pytest calls a test: its file, its class if there is one, its name and parameters."""
    if not case.get("classname"):  # a file that cannot be collected
        return case.get("name", "")
    parts = case.get("classname", "").split(".")
    depth = next((at for at in range(len(parts), 0, -1) if Path(*parts[:at]).with_suffix(".py").is_file()), len(parts))
    file = Path(*parts[:depth]).with_suffix(".py").as_posix()
    return "::".join([file, *parts[depth:], GROUP.sub("", case.get("name", ""))])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
