"""The command line as its users call it, in a fresh state folder or in a shared one that tests only look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import CommandLine
from support.installed import Installed


@pytest.fixture(scope="session")
def empty(tool: Installed, tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """A state folder that does not exist and must not come into being."""
    return CommandLine(tool, tmp_path_factory.mktemp("empty") / "home")


@pytest.fixture
def cli(tool: Installed, tmp_path: Path) -> Iterator[CommandLine]:
    """A fresh state folder; nothing of it may run when the test is over."""
    line = CommandLine(tool, tmp_path / "home")
    yield line
    line.end()


@pytest.fixture(scope="session")
def finished(tool: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """Jobs that are over, to look at: hello succeeded, fails failed, restarts succeeded in its second attempt."""
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
    """The job sleeper, which runs in the background, to look at."""
    line = CommandLine(tool, tmp_path_factory.mktemp("running") / "home")
    try:
        line.outputs["submit"] = line("submit", "sleeper.yaml", "--no-limits")
        line("wait", "sleeper", "--for", "running", "--timeout", "90s")
        yield line
        line("delete", "sleeper")
    finally:
        line.end()
