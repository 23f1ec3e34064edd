"""Runs conformance cases with the real tool, a few at once, on whatever cluster its options name."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import yaml

from support.conformance.case import Case
from support.conformance.checks import Outcome
from support.conformance.live_job import PATIENCE, LiveJob, Tool
from support.conformance.manifests import Document
from support.installed import Installed

STANDIN = Path(__file__).with_name("standin.py")


@dataclass(frozen=True)
class Place:
    """Where jobs run: `everywhere` are the options of each command, `starting` those of run and submit beside them."""

    tool: Installed
    folder: Path
    everywhere: tuple[str, ...] = ()
    starting: tuple[str, ...] = ()

    def run(self, name: str, documents: list[Document]) -> tuple[subprocess.CompletedProcess[str], float]:
        """Runs a manifest attached; how it ended, and how many seconds it took."""
        file = self.write(name, documents)
        begun = time.monotonic()
        done = self.tool_of(name)("run", str(file), *self.starting)
        return done, time.monotonic() - begun

    def write(self, name: str, documents: list[Document]) -> Path:
        """Writes a manifest into a folder of its own, beside the stand-in."""
        folder = self.tool.make_folder(self.folder / name)
        (folder / STANDIN.name).write_bytes(STANDIN.read_bytes())
        file = folder / "job.yaml"
        file.write_text(yaml.safe_dump_all(documents))
        return file

    def tool_of(self, name: str) -> Tool:
        """The tool with a state folder of its own."""
        home = self.folder / name / "home"

        def tfjob(command: str, *words: str, timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
            return self.tool.tfjob(home, command, *self.everywhere, *words, timeout=timeout)

        return tfjob


class CaseRunner:
    """Starts all cases at once but for `at_once`, and gives their outcomes when they are asked for."""

    def __init__(self, place: Place, cases: Iterable[Case], at_once: int) -> None:
        self.place = place
        self._pool = ThreadPoolExecutor(at_once)
        self._results: dict[str, Future[Outcome]] = {
            case.name: self._pool.submit(outcome, place, case) for case in cases
        }

    def outcome(self, case: Case) -> Outcome:
        """What came of a case."""
        return self._results[case.name].result()

    def close(self) -> None:
        """Starts no more."""
        self._pool.shutdown(cancel_futures=True)


def outcome(place: Place, case: Case) -> Outcome:
    """Runs one case to its end."""
    live = LiveJob(place.tool_of(case.job), case.job)
    if case.script is None:
        run, seconds = place.run(case.job, case.documents)
        return Outcome(run.returncode, live.status(), lines_of(run.stdout), seconds, run.stdout + run.stderr)
    file, begun = place.write(case.job, case.documents), time.monotonic()
    submitted = live.tool("submit", str(file), *place.starting)
    output = submitted.stdout + submitted.stderr
    assert submitted.returncode == 0, output
    case.script(live)
    waited = live.tool("wait", case.job)
    seconds = time.monotonic() - begun
    logs = live.tool("logs", case.job)
    return Outcome(waited.returncode, live.status(), lines_of(logs.stdout), seconds, output + waited.stdout)


def lines_of(output: str) -> dict[str, list[str]]:
    """What each replica said, in an output that names them."""
    lines: dict[str, list[str]] = {}
    for line in output.splitlines():
        replica, separator, text = line.partition(" | ")
        if separator:
            lines.setdefault(replica.strip(), []).append(text)
    return lines
