"""A job in the background while a case does something to it, with the commands that a user has."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any, Protocol

from support.running import wait_until

PATIENCE = 300.0


class Tool(Protocol):
    """`tfjob` for one cluster and one state folder."""

    def __call__(self, command: str, *words: str, timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""


class LiveJob:
    """`job("suspend")` is `tfjob suspend NAME`."""

    def __init__(self, tool: Tool, name: str) -> None:
        self.tool = tool
        self.name = name

    def __call__(self, command: str, *words: str) -> str:
        """Runs a command about the job, which must not fail, and returns what it printed."""
        done = self.tool(command, self.name, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def status(self) -> dict[str, Any]:
        """The job as `status -o json` shows it; empty if there is none."""
        done = self.tool("status", self.name, "-o", "json")
        if done.returncode == 3:
            return {}
        assert done.returncode == 0, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def until(self, **expected: Any) -> dict[str, Any]:
        """Waits until the job has these values, and returns it."""
        return self.until_it(lambda job: all(job.get(key) == value for key, value in expected.items()))

    def until_it(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Waits until something holds for the job, and returns it."""
        seen: list[dict[str, Any]] = [{}]

        def look() -> bool:
            seen[0] = self.status()
            return holds(seen[0])

        wait_until(look, PATIENCE, lambda: str(seen[0]))
        return seen[0]

    def runs(self) -> set[str]:
        """The replicas that run now."""
        return running(self.status())

    def lines(self, replica: str) -> list[str]:
        """What a replica has said in its present attempt."""
        return self("logs", replica).splitlines()


def running(job: dict[str, Any]) -> set[str]:
    """The replicas of a job that run."""
    return {one["name"] for one in job.get("replicas", ()) if one["phase"] == "Running"}
