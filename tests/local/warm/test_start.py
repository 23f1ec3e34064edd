"""Warm starts as people see them: the command line, the configuration, `status`, `events` and `doctor`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.golden import check_golden
from support.installed import Installed
from support.local.warm_pods import end_fork_servers, gone, standin_python
from support.running import Running, wait_until
from tfjob.local.state.home import Home
from tfjob.local.warm import pool
from tfjob.local.warm.policy import TURNED_OFF
from tfjob.local.warm.start import prospect

GOLDEN = Path(__file__).parents[2] / "support" / "data" / "local" / "golden"
MANIFEST = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: NAME}
spec:
  successPolicy: AllWorkers
  tfReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: POLICY
      template: {spec: POD}
"""


class Project:
    """A folder with jobs and the state of whoever runs them."""

    def __init__(self, tool: Installed, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self._tool = tool
        self.python = standin_python(folder / "venv")

    def run(
        self,
        name: str,
        command: list[str],
        *options: str,
        pod: dict[str, Any] | None = None,
        policy: str = "OnFailure",
    ) -> dict[str, Any]:
        """Run a job to its end and return its status; `pod` is what its pods have in addition to the command."""
        arguments = self.arguments(name, command, *options, pod=pod, policy=policy)
        done = self._tool.tfjob(self.home, "run", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        status: dict[str, Any] = self.asked("status", name)
        return status

    def start(self, name: str, command: list[str]) -> Running:
        return Running(self._tool, self.home, *self.arguments(name, command))

    def arguments(
        self,
        name: str,
        command: list[str],
        *options: str,
        pod: dict[str, Any] | None = None,
        policy: str = "OnFailure",
    ) -> tuple[str, ...]:
        """Write a manifest; return the arguments of the command that runs it."""
        manifest = self.folder / f"{name}.yaml"
        container: dict[str, Any] = {"name": "tensorflow", "image": "standin:1", "command": command}
        whole = {"containers": [container], **(pod or {})}
        container["volumeMounts"] = [{"name": one["name"], "mountPath": "/code"} for one in whole.get("volumes", ())]
        text = MANIFEST.replace("NAME", name).replace("POLICY", policy)
        manifest.write_text(text.replace("POD", json.dumps(whole)))
        return (str(manifest), "--python", str(self.python), *options)

    def told_cold(self, name: str) -> list[dict[str, Any]]:
        """The events about cold starts."""
        return [event for event in self.asked("events", name)["items"] if event["reason"] == "ColdStart"]

    def shown(self, *words: str) -> str:
        return self._tool.tfjob(self.home, *words).stdout

    def asked(self, *words: str) -> Any:
        return json.loads(self._tool.tfjob(self.home, *words, "-o", "json").stdout)


@pytest.fixture
def project(tool: Installed, tmp_path: Path) -> Iterator[Project]:
    made = Project(tool, tmp_path)
    yield made
    end_fork_servers(made.home)


def starts(status: dict[str, Any]) -> set[str]:
    return {replica["start"] for replica in status["replicas"]}


def check_cold(status: dict[str, Any], name: str) -> str:
    """Compare the reason for a cold start, one for all replicas, with golden/cold-NAME.txt; return it."""
    (start,) = starts(status)
    assert start.startswith("cold: ")
    check_golden(GOLDEN / f"cold-{name}.txt", f"{start}\n")
    return start


def test_runs_share_a_fork_server_which_doctor_shows(project: Project) -> None:
    """Status says of each replica how it was started."""
    (project.folder / "tfjob.toml").write_text("[local]\nwarm_idle = 600\n")
    (project.folder / "train.py").write_text("print('trained')")
    assert starts(project.run("first", ["python", "train.py"], "--warm")) == {"warm"}
    assert starts(project.run("second", ["python", "-u", "train.py"], "--warm")) == {"warm"}
    wait_until(lambda: project.asked("doctor")["forkServers"][0]["users"] == 0, 120)
    (server,) = project.asked("doctor")["forkServers"]
    assert (server["tensorflow"], server["forked"], server["users"]) == ("stand-in", 4, 0)
    assert 0 < server["endsIn"] <= 600


def test_a_job_that_waits_for_its_fork_server_says_so(project: Project) -> None:
    (tensorflow,) = project.python.parents[1].glob("lib/python3.*/site-packages/tensorflow.py")
    go = project.folder / "go"
    tensorflow.write_text(
        f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.05)\n__version__ = 'slow'"
    )
    (project.folder / "train.py").write_text("import tensorflow\nprint('trained')")
    with project.start("slow", ["python", "train.py"]) as run:
        run.wait_for("Pending 0/2 (ForkServerStarting): worker-0: ")
        notice = next(line for line in run.lines if "(ForkServerStarting)" in line)
        go.touch()
        assert run.finish() == 0
    assert starts(project.asked("status", "slow")) == {"warm"}
    check_golden(GOLDEN / "fork-server-starting.txt", f"{notice}\n")


def test_doctor_says_whether_the_programs_of_a_folder_can_start_warm(project: Project, tmp_path: Path) -> None:
    def warm() -> str:
        return str(prospect(tmp_path, {"HOME": str(tmp_path)}).problem)

    (tmp_path / "venv").rename(tmp_path / ".venv")
    assert warm() == ""
    (tensorflow,) = tmp_path.glob(".venv/lib/python3.*/site-packages/tensorflow.py")
    tensorflow.unlink()
    without = warm()
    assert f"{tmp_path}/.venv/bin/python" in without
    (tmp_path / "tfjob.toml").write_text("[local]\nwarm = false\n")
    turned_off = warm()
    assert "warm = false" in turned_off
    check_golden(GOLDEN / "doctor-not-warm.txt", f"{without}\n{turned_off}\n".replace(str(tmp_path), "FOLDER"))
    assert project.asked("doctor")["warmStart"].keys() == {"title", "ok", "problem", "fix"}


@pytest.mark.parametrize("command", [["python", "train.py"], ["python", "-m", "team.train"]])
def test_where_nobody_says_anything_only_a_program_that_imports_tensorflow_starts_warm(
    project: Project, command: list[str]
) -> None:
    """Of the others nothing is said but in JSON; with --cold there is no fork at all."""
    file = project.folder / (command[1] if len(command) == 2 else "team/train.py")
    file.parent.mkdir(exist_ok=True)
    file.write_text("print('trained')")
    check_cold(project.run("plain", command), "no-import")
    check_cold(project.run("shell", ["sh", "-c", " ".join(command)]), "no-import")
    assert "cold" not in project.shown("status", "shell")
    file.write_text("import tensorflow\nprint('trained')")
    assert starts(project.run("default", command)) == {"warm"}
    assert starts(project.run("refused", command, "--cold")) == {f"cold: {TURNED_OFF}"}
    (shown,) = [line for line in project.shown("status", "refused").splitlines() if TURNED_OFF in line]
    check_golden(GOLDEN / "status-cold.txt", f"{shown}\n")
    assert [project.told_cold(name) for name in ("plain", "shell", "refused")] == [[], [], []]


def test_a_program_in_a_volume_is_found_there(project: Project) -> None:
    """What the container has at the path counts, not what the machine has there."""
    (project.folder / "src").mkdir()
    (project.folder / "src" / "train.py").write_text("import tensorflow\nprint('trained')")
    volume = {"name": "code", "hostPath": {"path": f"{project.folder}/src"}}
    status = project.run("volume", ["python", "/code/train.py"], pod={"volumes": [volume]})
    assert starts(status) == {"warm"}


def test_a_program_that_would_gain_and_starts_cold_has_an_event_that_is_no_warning(project: Project) -> None:
    (project.folder / "train.py").write_text("import tensorflow\nprint('trained')")
    first = {"name": "first", "image": "standin:1", "command": ["true"]}
    status = project.run("two", ["python", "train.py"], pod={"initContainers": [first]})
    check_cold(status, "several-containers")
    (told,) = project.told_cold("two")
    assert told["type"] == "Normal"


def test_the_configuration_asks_for_warm_starts_and_the_command_line_for_cold_ones(project: Project) -> None:
    (project.folder / "train.py").write_text("print('trained')")
    (project.folder / "tfjob.toml").write_text("[local]\nwarm = true\nwarm_idle = 0\n")
    assert starts(project.run("first", ["python", "train.py"])) == {"warm"}
    for state in pool.running(Home(project.home).fork_servers):
        assert gone(state.pid)  # it was not to wait
    assert starts(project.run("second", ["python", "train.py"], "--cold")) == {f"cold: {TURNED_OFF}"}


def test_a_start_that_is_not_warm_has_an_event_that_says_why(project: Project) -> None:
    """Once for all replicas with the same reason."""
    status = project.run("shell", ["sh", "-c", "echo trained"], "--warm")
    reason = check_cold(status, "shell").removeprefix("cold: ")
    (told,) = project.told_cold("shell")
    assert told["message"].endswith(reason)
    check_golden(GOLDEN / "event-cold.txt", re.sub(r"worker-\d", "REPLICA", told["message"]) + "\n")
    assert told["type"] == "Warning"


def test_a_replica_that_crashes_right_after_a_fork_starts_cold_the_next_time(project: Project) -> None:
    """The restart in place is cold, and an event says why."""
    program = "import os, pathlib, socket\nmark = pathlib.Path(socket.gethostname())\n"
    (project.folder / "train.py").write_text(program + "if not mark.exists():\n    mark.touch()\n    os.abort()")
    status = project.run("crash", ["python", "train.py"], "--warm")
    assert "134" in check_cold(status, "crashed")
    assert project.told_cold("crash")


def test_after_such_a_crash_new_pods_start_cold_too(project: Project) -> None:
    """ExitCode makes another pod in place of a failed one; the run remembers."""
    program = "import os, pathlib, socket\nmark = pathlib.Path(socket.gethostname())\n"
    (project.folder / "train.py").write_text(program + "if not mark.exists():\n    mark.touch()\n    os.abort()")
    status = project.run("anew", ["python", "train.py"], "--warm", policy="ExitCode")
    assert "134" in check_cold(status, "another-crashed")
    assert status["restarts"] >= 1


def test_a_program_that_sets_what_the_import_reads_runs_once_and_cold(project: Project) -> None:
    """Its text says so beforehand; starting over at that line would do again what stands above it."""
    program = "import os, socket\nos.mkdir(socket.gethostname())\nos.environ['TF_USE_LEGACY_KERAS'] = '1'\n"
    (project.folder / "train.py").write_text(program + "import tensorflow\nprint('trained')")
    status = project.run("once", ["python", "train.py"])
    assert "TF_USE_LEGACY_KERAS" in check_cold(status, "variable")
    assert status["restarts"] == 0
    (told,) = project.told_cold("once")
    assert told["type"] == "Normal"
