"""Warm starts as people see them: the command line, the configuration, `status`, `events` and `doctor`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from installed import Installed
from local.warm_pods import end_fork_servers, gone, standin_python
from tfjob.local import fork_servers
from tfjob.local.home import Home

MANIFEST = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: NAME}
spec:
  successPolicy: AllWorkers
  tfReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template: {spec: {containers: [{name: tensorflow, image: "standin:1", command: COMMAND}]}}
"""


class Project:
    """A folder with jobs and the state of whoever runs them."""

    def __init__(self, tool: Installed, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self._tool = tool
        self._python = standin_python(folder / "venv")

    def run(self, name: str, command: list[str], *options: str) -> dict[str, Any]:
        """Runs a job to its end and returns its status."""
        manifest = self.folder / f"{name}.yaml"
        manifest.write_text(MANIFEST.replace("NAME", name).replace("COMMAND", json.dumps(command)))
        done = self._tool.tfjob(self.home, "run", str(manifest), "--python", str(self._python), *options)
        assert done.returncode == 0, done.stdout + done.stderr
        status: dict[str, Any] = self.asked("status", name)
        return status

    def asked(self, *words: str) -> Any:
        return json.loads(self._tool.tfjob(self.home, *words, "-o", "json").stdout)


@pytest.fixture
def project(tool: Installed, tmp_path: Path) -> Iterator[Project]:
    made = Project(tool, tmp_path)
    yield made
    end_fork_servers(made.home)


def starts(status: dict[str, Any]) -> set[str]:
    return {replica["start"] for replica in status["replicas"]}


def test_runs_share_a_fork_server_which_doctor_shows(project: Project) -> None:
    """Status says of each replica how it was started; without a word about it, nothing is said."""
    (project.folder / "train.py").write_text("print('trained')")
    assert starts(project.run("plain", ["python", "train.py"])) == {""}
    assert project.asked("doctor")["forkServers"] == []
    assert starts(project.run("first", ["python", "train.py"], "--warm")) == {"warm"}
    assert starts(project.run("second", ["python", "-u", "train.py"], "--warm")) == {"warm"}
    (server,) = project.asked("doctor")["forkServers"]
    assert (server["tensorflow"], server["forked"], server["users"]) == ("stand-in", 4, 0)
    assert 0 < server["endsIn"] <= 600


def test_the_configuration_asks_for_warm_starts_and_the_command_line_for_cold_ones(project: Project) -> None:
    (project.folder / "train.py").write_text("print('trained')")
    (project.folder / "tfjob.toml").write_text("[local]\nwarm = true\nwarm_idle = 0\n")
    assert starts(project.run("first", ["python", "train.py"])) == {"warm"}
    for state in fork_servers.running(Home(project.home).fork_servers):
        assert gone(state.pid)  # it was not to wait
    assert starts(project.run("second", ["python", "train.py"], "--cold")) == {""}


def test_a_start_that_is_not_warm_has_an_event_that_says_why(project: Project) -> None:
    """Once for all replicas with the same reason."""
    status = project.run("shell", ["sh", "-c", "echo trained"], "--warm")
    assert starts(status) == {"cold: its command is sh, not python"}
    told = [event for event in project.asked("events", "shell")["items"] if event["reason"] == "ColdStart"]
    assert len(told) == 1
    assert told[0]["message"].endswith(" starts cold, because its command is sh, not python")


def test_a_replica_that_crashes_right_after_a_fork_starts_cold_the_next_time(project: Project) -> None:
    """The restart in place is cold, and an event says why."""
    program = "import os, pathlib, socket\nmark = pathlib.Path(socket.gethostname())\n"
    (project.folder / "train.py").write_text(program + "if not mark.exists():\n    mark.touch()\n    os.abort()")
    status = project.run("crash", ["python", "train.py"], "--warm")
    assert starts(status) == {"cold: it crashed (134) within 5 s of a warm start"}
    reasons = [event["reason"] for event in project.asked("events", "crash")["items"]]
    assert "ColdStart" in reasons
