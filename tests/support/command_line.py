"""Calls of the real program in one state folder, golden files for what it prints, and what is left when it is over."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from support.golden import UPDATE, check_golden
from support.installed import Installed
from support.running import command_of, end_processes, processes_of, wait_until

HERE = Path(__file__).parent / "data" / "cli"
MANIFESTS = HERE / "manifests"
GOLDEN = HERE / "golden"

NORMAL = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (r"127\.77\.\d+\.\d+", "ADDRESS"),
    (r"(?<![\w=])(\d+(\.\d)?[smhd]){1,2}\b", "SPAN"),
    (r"(?<=\S) {2,}", "  "),
)
"""What differs from run to run; columns are as wide as their cells, so their distance differs too."""


class CommandLine:
    """`tfjob` with one state folder; it starts in the folder of the test manifests."""

    def __init__(self, tool: Installed, home: Path) -> None:
        self.tool = tool
        self.home = home
        self.outputs: dict[str, str] = {}

    def __call__(self, *words: str, code: int = 0, stdin: str = "", env: dict[str, str] | None = None) -> str:
        """Runs a command to its end and returns what it printed, stderr after stdout."""
        done = self.run(*words, stdin=stdin, env=env)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    def run(self, *words: str, stdin: str = "", env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""
        return subprocess.run(
            [*self.tool.command, *words],
            env=self.environment(env),
            cwd=MANIFESTS,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    def environment(self, env: dict[str, str] | None = None) -> dict[str, str]:
        """The environment of every call; a fixed width, because click wraps help texts."""
        return {**self.tool.environment(self.home), "COLUMNS": "100", **(env or {})}

    def end(self) -> None:
        """Fail if a process of this state folder is left, and end it."""
        try:
            # A background driver needs a moment to notice that it has nothing to do.
            wait_until(lambda: not processes_of(self.home), 60, lambda: f"left behind: {self._left()}")
        finally:
            end_processes(self.home)

    def _left(self) -> list[str]:
        return [command_of(pid).replace(b"\0", b" ").decode() for pid in processes_of(self.home)]

    def normal(self, text: str, *, exact: bool = False) -> str:
        """The text without what differs from run to run; with `exact`, only without the folders."""
        for folder, name in ((self.home, "HOME"), (MANIFESTS, "MANIFESTS")):
            text = text.replace(str(folder), name)
        for pattern, name in () if exact else NORMAL:
            text = re.sub(pattern, name, text)
        return text

    def golden(self, name: str, text: str, *, exact: bool = False) -> None:
        """Compare with golden/NAME.txt."""
        check_golden(GOLDEN / f"{name}.txt", self.normal(text, exact=exact))

    def until_golden(self, name: str, look: Callable[[], str]) -> None:
        """Looks until it is exactly as golden/NAME.txt: a picture may be looked at while it is drawn."""
        seen = [""]

        def agrees() -> bool:
            seen[0] = look()
            return UPDATE or self.normal(seen[0], exact=True) == (GOLDEN / f"{name}.txt").read_text()

        with suppress(AssertionError):  # told below, with what was seen
            wait_until(agrees, 90)
        self.golden(name, seen[0], exact=True)


def by_replica(output: str) -> str:
    """An attached run's output without what depends on who was faster: the order of replicas, and how many were up."""
    lines = [line for line in output.splitlines() if ": Running " not in line]
    said = [line for line in lines if " | " in line]
    notes = [line for line in lines if " | " not in line]
    return "\n".join([*notes, *sorted(said, key=lambda line: line.split(" | ")[0])]) + "\n"
