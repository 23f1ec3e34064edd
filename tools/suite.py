"""Run a suite of tests, then run its failures once more, alone.

    python tools/suite.py COUNTS SECONDS PYTHON [PYTEST_ARGUMENT]...

Tests that run at once share few cores with real servers and real clocks, so a correct test may lose a race that no user
would run into. A test that fails, and passes when nothing else runs, is unsteady: both results are printed, and it must
be fixed. At most two unsteady tests per suite are tolerated. The suite adds one line to COUNTS: how many tests passed,
failed and were unsteady. A run that takes longer than SECONDS hangs and is ended. A run with `--long` prints how long
the tests of each file took.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

UNSTEADY_AT_MOST = 2


@dataclass(frozen=True)
class Result:
    """How a run of pytest ended, and the ids of the tests that passed and that did not."""

    code: int
    passed: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds per test id, including setup and teardown."""


def main(counts: Path, seconds: str, python: str, arguments: list[str]) -> int:
    """Do both runs and return the exit code."""
    pytest = ["timeout", "--kill-after=10", seconds, python, "-m", "pytest", "--quiet"]
    first = run([*pytest, "--durations=10", *arguments])
    if "--long" in arguments:
        print_files(first.seconds)
    failed, unsteady = first.failed, frozenset[str]()
    if 0 < len(failed) <= UNSTEADY_AT_MOST:
        print(f"== once more, alone: {' '.join(sorted(failed))}", flush=True)
        options = [one for one in arguments if one.startswith(("--long", "--scale=", "--seed="))]
        unsteady = failed & run([*pytest, *options, *sorted(failed)]).passed
    for name in sorted(unsteady):
        print(f"UNSTEADY {name}: failed alongside others, passed alone")
    broken = first.code not in (0, 1) or (first.code == 1 and not failed)  # pytest itself failed
    bad = len(failed - unsteady) or int(broken)
    with counts.open("a") as file:
        file.write(f"{len(first.passed | unsteady)} {bad} {len(unsteady)}\n")
    return int(bad > 0)


def run(pytest: list[str]) -> Result:
    """Run pytest with the standard output of this process, and return its results."""
    with tempfile.TemporaryDirectory(prefix="tfjob-suite-") as folder:
        report = Path(folder, "report.xml")
        code = subprocess.run([*pytest, f"--junitxml={report}"], check=False).returncode
        try:
            cases = ElementTree.parse(report).getroot().findall("testsuite/testcase")
        except (OSError, ElementTree.ParseError):
            return Result(code or 1)
    outcomes = [(name_of(case), {outcome.tag for outcome in case}) for case in cases]
    failed = frozenset(name for name, tags in outcomes if tags & {"failure", "error"})
    seen = frozenset(name for name, tags in outcomes if "skipped" not in tags)
    seconds = {name_of(case): float(case.get("time", 0)) for case in cases}
    return Result(code, seen - failed, failed, seconds)


def print_files(seconds: Mapping[str, float]) -> None:
    """Print how long the tests of each file took, one after another; those that run at once overlap."""
    files = Counter[str]()
    for name, took in seconds.items():
        files[name.partition("::")[0]] += took
    counts = Counter(name.partition("::")[0] for name in seconds)
    for file, took in files.most_common():
        print(f"== {took:6.0f} s {counts[file]:4} tests  {file}")


def name_of(case: ElementTree.Element) -> str:
    """Return the id that `tests/support/at_once.py` records for a test; a file that cannot be collected has none."""
    noted = case.find("properties/property[@name='id']")
    return str(noted.get("value") if noted is not None else case.get("name"))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]))
