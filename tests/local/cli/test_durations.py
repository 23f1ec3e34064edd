"""Tests can set the durations of a run and of its background driver."""

from __future__ import annotations

import contextlib
from datetime import timedelta

import pytest

from support.command_line import CommandLine
from tfjob.durations import VARIABLE
from tfjob.local.jobs.runs import job_of
from tfjob.local.state.home import Home
from tfjob.local.state.store import open_store


@pytest.mark.parametrize("command", ["run", "submit"])
def test_a_restart_waits_as_long_as_the_test_says(cli: CommandLine, command: str) -> None:
    """The usual length of the first wait is 0 s."""
    cli(command, "restarts.yaml", "--no-limits", env={VARIABLE: '{"restart_waits": [0.75]}'})
    cli("wait", "restarts", "--timeout", "90s")
    with contextlib.closing(open_store(Home(cli.home).database)) as store:
        (run,) = store.runs()
        last = job_of(run).status.last_restart
    assert last is not None
    assert last.time is not None
    assert last.not_before == last.time + timedelta(seconds=0.75)
