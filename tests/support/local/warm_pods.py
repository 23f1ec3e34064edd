"""Pods that start warm: a fork server with a stand-in for TensorFlow that costs nothing to import."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from support.local.pod_harness import PATH, PYTHON, PodRun, Pods
from support.running import wait_until
from tfjob.durations import Durations
from tfjob.local.sandbox import processes
from tfjob.local.state.home import Home
from tfjob.local.warm.pool import ForkServer, NotWarm, State, running

PATIENCE = 60.0
PATIENT = Durations(fork_server_answer=timedelta(seconds=PATIENCE), fork_ready=timedelta(seconds=PATIENCE))
"""Durations for a busy machine."""
VARIABLES = {"PYTHONUNBUFFERED": "1", "LANG": "C.UTF-8"}


class WarmPods:
    """The pods of a place, started by forks."""

    def __init__(self, pods: Pods, folder: Path) -> None:
        self.pods = pods
        self.home = Home(folder / "state")
        self._servers: list[ForkServer] = []
        self.python = standin_python(folder / "venv")
        (self.packages,) = (folder / "venv").glob("lib/python3.*/site-packages")
        self.home.path.mkdir()
        pods.give(folder)

    def have(self, text: str) -> None:
        """What `import tensorflow` runs."""
        (self.packages / "tensorflow.py").write_text(text)

    def server(self, idle: float = 60.0, durations: Durations = PATIENT) -> ForkServer:
        made = ForkServer(self.home, str(self.python), VARIABLES, idle, durations)
        self._servers.append(made)
        return made

    def launch(
        self,
        program: str,
        *words: str,
        cwd: Path,
        mounts: Sequence[dict[str, Any]] = (),
        life: float = PATIENCE,
        **changes: Any,
    ) -> PodRun:
        """Start a pod of one container warm; `program` is a script, or a module after `-m `."""
        module = program.startswith("-m ")
        argv = [str(self.python), *(["-m"] if module else []), program.removeprefix("-m "), *words]
        warm = {"at": 2 if module else 1, "module": module, "life": life}
        container = self.pods.container(*argv, cwd=str(cwd), warm=warm, mounts=list(mounts))
        pod = self.pods.prepare(container, **changes)
        secrets = json.dumps({"env": {"main": {"PATH": PATH, **VARIABLES}}, "files": {}}).encode()
        assert self.pods.as_user(lambda: self.ask(pod, secrets)), pod.errors()
        return pod

    def launch_cold(self, program: str, *words: str, cwd: Path, **changes: Any) -> PodRun:
        """The same without a fork server."""
        argv = [str(self.python), *program.split(" "), *words]
        return self.pods.launch(self.pods.container(*argv, cwd=str(cwd)), env=VARIABLES, **changes)

    def ask(self, pod: PodRun, secrets: bytes) -> None:
        server = self.server()
        until_ready(server)
        server.launch(pod.folder, secrets)
        server.close()

    def states(self) -> list[State]:
        return running(self.home.fork_servers)

    def end(self) -> None:
        """End every fork server."""
        end_fork_servers(self.home.path)

    def close(self) -> None:
        """End every fork server and close the connections to them, whether the test passes or fails."""
        self.end()
        for server in self._servers:
            server.close()


def end_fork_servers(home: Path) -> None:
    """Ends every fork server of a state folder; one that has just begun has not said yet which process it is."""
    folders = Home(home).fork_servers
    wait_until(lambda: all(state.pid for state in running(folders)), 60)
    for state in running(folders):
        if state.pid:  # of one that has ended since nothing is left
            processes.kill(state.pid, signal.SIGTERM)


@contextmanager
def fork_servers_ended(home: Path) -> Iterator[None]:
    """Leaves no fork server of a state folder behind."""
    try:
        yield
    finally:
        end_fork_servers(home)


def standin_python(venv: Path) -> Path:
    """An interpreter whose TensorFlow is one line."""
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", str(venv)], check=True)
    (packages,) = venv.glob("lib/python3.*/site-packages")
    (packages / "tensorflow.py").write_text("__version__ = 'stand-in'")
    return venv / "bin" / "python"


def until_ready(server: ForkServer, seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not server.ready():
        assert time.monotonic() < deadline, "no fork server"
        time.sleep(0.01)


def why_not(server: ForkServer) -> str:
    """Why there will be none."""
    try:
        until_ready(server)
    except NotWarm as error:
        return str(error)
    return ""


@contextmanager
def warm_pods(pods: Pods) -> Iterator[WarmPods]:
    folder = Path(tempfile.mkdtemp(prefix="tfjob-warm-"))
    folder.chmod(0o755)
    made = WarmPods(pods, folder)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(folder)


def gone(pid: int, seconds: float = 60.0) -> bool:
    """Whether a process ends in time."""
    deadline = time.monotonic() + seconds
    while os.path.exists(f"/proc/{pid}") and not processes.is_zombie(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
