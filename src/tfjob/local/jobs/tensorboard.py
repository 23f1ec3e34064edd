"""TensorBoard in the foreground, for `tfjob tensorboard`: for one job or several, running or finished.

The process belongs to the command and ends with it.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfjob.api.objects import Deployment, ObjectMeta, Pod
from tfjob.jobs.backend import Board
from tfjob.local.inputs import environment
from tfjob.local.inputs.images import chosen_interpreter, interpreter_with
from tfjob.local.pod.assembly import Machine
from tfjob.local.run.tensorboard import MODULE, has_no_events, log_folder
from tfjob.local.state.errors import Refusal
from tfjob.plan.build.tensorboard import LOCAL_OPTIONS, LOCAL_PROGRAM

PROGRAM = f"""
import ctypes, os, sys
parent = int(sys.argv.pop(1))
try:
    ctypes.CDLL(None).prctl(1, 15)  # SIGTERM when the command ends, for any reason
except AttributeError:
    pass
if os.getppid() != parent:
    sys.exit(0)
{LOCAL_PROGRAM}"""
HOST = "127.0.0.1"
URL = re.compile(rf"TensorBoard \S+ at (http://{re.escape(HOST)}:\d+/)")
USUAL_PORT = 6006
STEP_SECONDS = 0.05


@dataclass(frozen=True)
class TensorBoardView:
    """What to start: an interpreter that has TensorBoard, the real folder to show, the environment variables."""

    python: Path
    log_dir: str
    env: dict[str, str]


def view(deployment: Deployment, machine: Machine, folder: Path) -> TensorBoardView:
    """Return the TensorBoard of a job and create its volumes; `folder` holds those that belong to it alone."""
    metadata = ObjectMeta(name=deployment.metadata.name, namespace=deployment.metadata.namespace)
    pod = Pod(metadata=metadata, spec=deployment.spec["template"]["spec"])
    (container,) = pod.spec["containers"]
    python = interpreter_with(MODULE, chosen_interpreter(machine.python, machine.project))
    variables = environment.resolve(
        container, pod, references=machine.references, node=machine.node, environ=machine.environ
    )
    return TensorBoardView(python, log_folder(pod, machine, folder), variables.variables())


def together(views: Mapping[str, TensorBoardView], links: Path) -> TensorBoardView:
    """Return one TensorBoard for several jobs: a new folder in which each job's folder has the name of the job.

    The folder contains links, because TensorBoard's own list of folders (`--logdir_spec`) shows a folder that two jobs
    share only once and does not support commas in paths. Raises Refusal for an object store, which cannot be linked.
    """
    for name, one in views.items():
        if "://" in one.log_dir:
            hint = f"Show it alone: tfjob tensorboard {name}"
            raise Refusal(f"{name} logs to an object store ({one.log_dir}) and cannot be shown with other jobs", hint)
    links.mkdir()
    for name, one in views.items():
        (links / name).symlink_to(one.log_dir)
    first = next(iter(views.values()))
    return TensorBoardView(first.python, str(links), first.env)


class Server:
    """A TensorBoard process that writes to the file `log`."""

    def __init__(self, shown: TensorBoardView, log: Path, port: int = 0) -> None:
        self._log = log
        words = ["--logdir", shown.log_dir, "--host", HOST, "--port", str(port)]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [shown.python, "-c", PROGRAM, str(os.getpid()), *words, *LOCAL_OPTIONS],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=shown.env,
                cwd="/",
                start_new_session=True,  # Ctrl-C goes to the command, which then stops it
            )

    @property
    def url(self) -> str:
        found = URL.search(self.said)
        return found[1] if found else ""

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self, grace: float = 5.0) -> None:
        self._process.terminate()
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def show(views: Mapping[str, TensorBoardView], port: int | None, ready: Callable[[Sequence[Board]], None]) -> None:
    with tempfile.TemporaryDirectory() as place:
        shown = together(views, Path(place, "jobs")) if len(views) > 1 else next(iter(views.values()))
        server = Server(shown, Path(place, "log"), free_port(port))
        try:
            while not (url := server.url) and not server.has_ended:
                time.sleep(STEP_SECONDS)
            if url:
                ready([Board(name, url, one.log_dir, has_no_events(one.log_dir)) for name, one in views.items()])
            while not server.has_ended:
                time.sleep(STEP_SECONDS)
            raise Refusal(f"TensorBoard ended unexpectedly: {server.said.strip()[-500:]}")
        finally:
            server.stop()


def free_port(wanted: int | None) -> int:
    """Return the wanted port if it is free; without one, the usual port if it is free, else 0 for any."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, USUAL_PORT if wanted is None else wanted))
        except OSError as error:
            if wanted is None:
                return 0
            hint = "Choose another port, or omit --port."
            raise Refusal(f"cannot use port {wanted}: {error.strerror}", hint) from None
    return USUAL_PORT if wanted is None else wanted
