"""Collective and parameter server trainings on this machine under every kind of incident; steps are counted.

Part of the long form; with `--scale 1` everything happens to every task:

    pytest --long tests/long/training/test_training_under_fire.py -s --seed 1
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.installed import Installed
from support.long_form import each_with_each, whole
from support.running import Running, end_processes, processes_of, status, wait_until, workload_pid
from support.training.fire import (
    COLLECTIVE,
    JOB,
    KILLED,
    OUT_OF_MEMORY,
    PAUSED,
    SERVERS,
    STEPS,
    TASKS,
    TERMINATED,
    Fire,
    Incident,
    documents,
)
from support.training.fire_anywhere import MEMORY, Anywhere, Start

pytestmark = [pytest.mark.long, pytest.mark.faults, pytest.mark.tensorflow, pytest.mark.timeout(400)]

Object = dict[str, Any]


class Here:
    """A training of this machine."""

    def __init__(self, run: Running) -> None:
        self.run = run

    def process(self, task: str) -> int:
        return workload_pid(self.run.home, f"{JOB}-{task}")

    def status(self) -> Object:
        found: Object = status(self.run.tool, self.run.home, JOB)["status"]  # type: ignore[assignment]
        return found

    def shown(self) -> str:
        return self.run.tool.tfjob(self.run.home, "status", JOB).stdout


@pytest.fixture
def start(tool: Installed, tmp_path: Path, seed: int, request: pytest.FixtureRequest) -> Iterator[Start]:
    """Starts a training of a shape; the moment of its incident follows from the seed and the case."""
    chance = random.Random(f"{seed} {request.node.name}")
    home, folder = tmp_path / "home", tmp_path / "fire"

    with ExitStack() as stack:

        def begin(shape: str, *options: str, run: tuple[str, ...] = (), **more: Any) -> Fire:
            manifest = tmp_path / "job.yaml"
            manifest.write_text(yaml.safe_dump_all(documents(shape, folder, *options, **more)))
            here = Here(stack.enter_context(Running(tool, home, str(manifest), *run)))
            return Fire(here, folder, chance)

        stack.callback(end_processes, home)
        yield begin
        wait_until(lambda: processes_of(home) == [], 60, lambda: f"{processes_of(home)} still run")


@pytest.mark.parametrize(
    ("shape", "task", "incident"), list(each_with_each(TASKS, [KILLED, TERMINATED, OUT_OF_MEMORY]))
)
def test_a_training_that_loses_a_task_ends_well_and_repeats_few_steps(
    start: Start, shape: str, task: str, incident: Incident
) -> None:
    """It is one restart, and the task that was struck is its cause."""
    if incident is OUT_OF_MEMORY and os.geteuid() != 0:
        pytest.skip("limits of memory need root")
    fire = start(shape, memory=MEMORY if incident is OUT_OF_MEMORY else "")
    fire.strike(incident, task)
    status = fire.finish()
    assert (status["state"], status["restarts"]) == ("Succeeded", 1)
    cause = status["lastRestart"]["cause"]
    assert (cause["replica"], cause["exitCode"]) == (task, incident.exit_code)
    assert incident.reason in (cause["reason"], "")
    # The coordinator hands a step out again if its worker is lost, also one whose update has just arrived.
    assert fire.updates() in ((STEPS,) if shape == COLLECTIVE else (STEPS, STEPS + 1))


@pytest.mark.parametrize(
    ("shape", "task"),
    [whole(COLLECTIVE, "chief-0"), (COLLECTIVE, "worker-0"), whole(SERVERS, "worker-1"), (SERVERS, "ps-0")],
)
def test_a_task_that_is_paused_for_a_moment_costs_nothing_but_time(start: Start, shape: str, task: str) -> None:
    fire = start(shape)
    fire.strike(PAUSED, task)
    status = fire.finish()
    assert status.get("restarts", 0) == 0
    assert len(fire.steps()) == STEPS


def test_a_sigterm_that_tensorflow_swallows_changes_nothing(start: Start) -> None:
    """Its own handler takes a note of it; the worker trains on, and so does the job."""
    fire = start(COLLECTIVE, "--swallow-sigterm")
    fire.strike(TERMINATED, "worker-0")
    status = fire.finish()
    assert status.get("restarts", 0) == 0
    assert len(fire.steps()) == STEPS


@pytest.mark.root
@pytest.mark.parametrize("shape", [COLLECTIVE, whole(SERVERS)])
def test_a_full_disk_fails_the_job_and_the_next_run_goes_on_from_the_last_whole_checkpoint(
    start: Start, tmp_path: Path, shape: str
) -> None:
    with small_disk(tmp_path / "disk") as disk:
        fire = start(shape, run=("--volume", f"tfjob-data={disk}"))
        filler = disk / "filler"
        fire.strike(Incident("finds the disk full", lambda *_: fill(filler)), "chief-0")
        failure = fire.fail()
        assert failure["exitCode"] == 1
        assert any("No space left on device" in line for line in failure["lastLines"])
        filler.unlink()
        again = start(shape, run=("--volume", f"tfjob-data={disk}"))
        again.incidents = fire.incidents
        again.finish()


@pytest.mark.parametrize("shape", [whole(COLLECTIVE), SERVERS])
def test_a_port_that_another_program_has_is_replaced(start: Start, shape: str) -> None:
    with socket.create_server(("0.0.0.0", 0)) as other:
        port = other.getsockname()[1]
        fire = start(shape, port=port)
        status = fire.finish()
    assert status.get("restarts", 0) == 0
    assert any(f"port {port} is taken" in line for line in fire.place.run.lines)
    assert len(fire.steps()) == STEPS


@contextmanager
def small_disk(folder: Path, size: str = "2m") -> Iterator[Path]:
    """A disk with room for a few checkpoints."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(file: Path) -> None:
    """Takes all room that a disk has."""
    with file.open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(65536))
        except OSError:
            pass


class TestHere(Anywhere):
    """What is the same there."""
