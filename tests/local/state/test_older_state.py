"""This release reads and continues what an older one has left in its state folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.command_line import CommandLine
from support.installed import Installed
from support.older_state import SCHEMAS, lay_out
from support.running import wait_until


@pytest.fixture(params=SCHEMAS)
def older(request: pytest.FixtureRequest, tool: Installed, home: Path) -> CommandLine:
    return CommandLine(tool, lay_out(request.param, home.parent))


def listed(older: CommandLine, *words: str) -> dict[str, str]:
    found: list[dict[str, Any]] = json.loads(older("ps", *words, "-o", "json"))["items"]
    return {one["id"]: one["state"] for one in found}


def starts(older: CommandLine, job: str) -> int:
    """Return how many starts of a job's replicas the claim has noted."""
    return (older.home / "claims" / "default" / "kept" / "lines").read_text().splitlines().count(job)


def test_every_run_is_listed_with_its_state(older: CommandLine) -> None:
    expected = {"done.2": "Succeeded", "broken.1": "Failed", "paused.1": "Suspended"}
    assert expected.items() <= listed(older).items()
    assert "done.1" in listed(older, "--all")


def test_status_events_and_logs_of_older_runs_are_shown(older: CommandLine) -> None:
    broken = json.loads(older("status", "broken", "-o", "json"))
    assert (broken["state"], broken["failure"]["exitCode"]) == ("Failed", 3)
    assert broken["restarts"] >= 1
    assert "TFJobFailed" in older("events", "broken")
    for run in ("done", "done.1", "paused", "running"):
        assert f"worker-1 | hello from {run.partition('.')[0]}" in older("logs", run).splitlines()


def test_a_run_that_lost_its_processes_starts_its_replicas_again(older: CommandLine) -> None:
    before = starts(older, "running")
    older("ps")  # starts a driver
    wait_until(lambda: starts(older, "running") == before + 2, 90)
    assert json.loads(older("status", "running", "-o", "json"))["restarts"] == 1


def test_a_suspended_run_is_resumed_with_its_claim_and_config(older: CommandLine) -> None:
    before = starts(older, "paused")
    older("resume", "paused")
    wait_until(lambda: starts(older, "paused") == before + 2, 90)
    assert listed(older)["paused.1"] == "Running"


def test_runs_can_be_deleted_and_their_names_used_again(older: CommandLine) -> None:
    older("delete", "done")
    assert "done.2" not in listed(older, "--all")
    manifest = older.home / "runs" / "default" / "broken.1" / "manifest.yaml"
    older("run", str(manifest), "--level", "ports", code=1)
    assert listed(older)["broken.2"] == "Failed"
