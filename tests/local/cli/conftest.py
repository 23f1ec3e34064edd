"""The command line in a new state folder, or in a shared one that tests only read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import CommandLine
from support.installed import Installed


@pytest.fixture(scope="session")
def empty(tool: Installed, tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """A state folder that does not exist and must not be created."""
    return CommandLine(tool, tmp_path_factory.mktemp("empty") / "home")


@pytest.fixture
def cli(tool: Installed, tmp_path: Path) -> Iterator[CommandLine]:
    """A new state folder; no process may be left at the end of the test."""
    line = CommandLine(tool, tmp_path / "home")
    yield line
    line.end()


@pytest.fixture(scope="session")
def finished(tool: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """Finished jobs to read: hello succeeded, fails failed, restarts succeeded in its second attempt."""
    line = CommandLine(tool, tmp_path_factory.mktemp("finished") / "home")
    try:
        line.outputs["hello"] = line("run", "hello.yaml", "--no-limits")
        line.outputs["fails"] = line("run", "fails.yaml", "--no-limits", code=1)
        line.outputs["restarts"] = line("run", "restarts.yaml", "--no-limits")
        yield line
    finally:
        line.end()


@pytest.fixture(scope="session")
def running(tool: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """The job sleeper, which runs in the background, to read."""
    line = CommandLine(tool, tmp_path_factory.mktemp("running") / "home")
    try:
        line.outputs["submit"] = line("submit", "sleeper.yaml", "--no-limits")
        line("wait", "sleeper", "--for", "running", "--timeout", "90s")
        yield line
        line("delete", "sleeper")
    finally:
        line.end()
