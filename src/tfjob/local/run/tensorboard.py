"""TensorBoard on this machine: the folder that it shows, the interpreter that has it, and its process.

The process belongs to whoever started it, a run's driver or a command, and ends with it: nothing stays in the
background.
"""

from __future__ import annotations

import logging
import os
import posixpath
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from tfjob.api.objects import Deployment, ObjectMeta, Pod
from tfjob.controller.actions import Event
from tfjob.jobs.backend import Board
from tfjob.local.inputs import environment
from tfjob.local.inputs.images import chosen_interpreter, has_module
from tfjob.local.pod.assembly import Machine, volume_context
from tfjob.local.state.errors import Refusal
from tfjob.local.volumes import volumes

logger = logging.getLogger(__name__)

PROGRAM = """
import ctypes, os, sys, types
parent = int(sys.argv.pop(1))
try:
    ctypes.CDLL(None).prctl(1, 15)  # SIGTERM when whoever started this ends, in whatever way
except AttributeError:
    pass
if os.getppid() != parent:
    sys.exit(0)
if "://" not in " ".join(sys.argv):
    # What TensorBoard takes for an installation without TensorFlow: importing that takes seconds and half a gigabyte.
    sys.modules["tensorboard.compat.notf"] = types.ModuleType("notf")
from tensorboard.main import run_main
sys.argv[0] = "tensorboard"
run_main()
"""
"""For the interpreter that has TensorBoard. For a local folder TensorFlow adds nothing; it reads some object stores."""
HOST = "127.0.0.1"
URL = re.compile(rf"TensorBoard \S+ at (http://{re.escape(HOST)}:\d+/)")
USUAL_PORT = 6006
STEP_SECONDS, GRACE_SECONDS = 0.05, 5.0
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a TensorBoard that ended by itself, or could not be started, is started again."""


class NotInstalled(Refusal):
    """No interpreter at hand has TensorBoard."""


@dataclass(frozen=True)
class TensorBoardView:
    """What to start: an interpreter that has TensorBoard, the folder as it is called here, its variables."""

    python: Path
    log_dir: str
    env: dict[str, str]

    @property
    def is_empty(self) -> bool:
        """Whether there are no event files yet; of an object store that is not known here."""
        return "://" not in self.log_dir and next(Path(self.log_dir).rglob("*tfevents*"), None) is None


def view(deployment: Deployment, machine: Machine, folder: Path) -> TensorBoardView:
    """The TensorBoard that a job asks for, its folders made; `folder` is for volumes that only it has."""
    pod_spec = deployment.spec["template"]["spec"]
    (container,) = pod_spec["containers"]
    metadata = ObjectMeta(name=deployment.metadata.name, namespace=deployment.metadata.namespace)
    pod = Pod(metadata=metadata, spec=pod_spec)
    context = volume_context(pod, machine, folder)
    python = interpreter(machine.python, machine.project)
    resolved = volumes.resolve(context, {})
    volumes.prepare(resolved, context, datetime.now(UTC))
    words: list[str] = container["command"]
    log_dir = words[words.index("--logdir") + 1]
    variables = environment.resolve(
        container, pod, references=machine.references, node=machine.node, environ=machine.environ
    )
    return TensorBoardView(
        python, real_folder(log_dir, resolved.mounts[container["name"]], machine.project), variables.variables()
    )


def real_folder(log_dir: str, mounts: Iterable[volumes.Mount], project: Path) -> str:
    """What a folder of the TensorBoard container is here: below one of its mounts, else the path itself.

    A relative path begins at the manifest's folder, as it does for a replica. An object store stays what it is.
    """
    if "://" in log_dir:
        return log_dir
    path = PurePosixPath(posixpath.normpath(project / log_dir))
    for mount in sorted(mounts, key=lambda mount: len(PurePosixPath(mount.target).parts), reverse=True):
        if path.is_relative_to(mount.target):
            return str(mount.source / path.relative_to(mount.target))
    return str(path)


def interpreter(python: Path | None, project: Path) -> Path:
    """The job's interpreter if it has TensorBoard, else our own. Raises NotInstalled."""
    own, chosen = Path(sys.executable), chosen_interpreter(python, project)
    for one in dict.fromkeys((chosen, own)):
        if has_module(one, "tensorboard"):
            return one
    package = "'tfjob[tensorboard]'" if chosen == own else "tensorboard"
    raise NotInstalled(f"TensorBoard is not installed in {chosen}", f"Install it: {chosen} -m pip install {package}")


def together(views: Mapping[str, TensorBoardView], links: Path) -> TensorBoardView:
    """Several jobs in one: a new folder in which each of their folders has the name of its job.

    Links, because TensorBoard's own list of folders (`--logdir_spec`) shows a folder that two jobs share only once and
    knows no commas in paths. Raises Refusal for an object store, which no link leads to.
    """
    for name, one in views.items():
        if "://" in one.log_dir:
            hint = f"Show it alone: tfjob tensorboard {name}"
            raise Refusal(
                f"{name} has its curves in an object store, {one.log_dir}: no folder to show beside others", hint
            )
    links.mkdir()
    for name, one in views.items():
        (links / name).symlink_to(one.log_dir)
    first = next(iter(views.values()))
    return TensorBoardView(first.python, str(links), first.env)


class Server:
    """A TensorBoard process; `log` is the file that it writes to."""

    def __init__(self, shown: TensorBoardView, log: Path, port: int = 0) -> None:
        self.view = shown
        self._log = log
        words = ["--logdir", shown.log_dir, "--host", HOST, "--port", str(port)]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [shown.python, "-c", PROGRAM, str(os.getpid()), *words, "--load_fast=false", "--reload_multifile=true"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=shown.env,
                cwd="/",
                start_new_session=True,  # a Ctrl-C is for us, who end it in order
            )

    @property
    def url(self) -> str:
        """Where it listens; empty until it does."""
        found = URL.search(self.said)
        return found[1] if found else ""

    @property
    def said(self) -> str:
        """What it printed."""
        return self._log.read_text(errors="replace")

    @property
    def has_ended(self) -> bool:
        """Whether the process is over."""
        return self._process.poll() is not None

    def stop(self) -> None:
        """Ends it."""
        self._process.terminate()
        try:
            self._process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def show(views: Mapping[str, TensorBoardView], port: int | None, ready: Callable[[Sequence[Board]], None]) -> None:
    """One TensorBoard of some jobs in the foreground until it ends or is interrupted; `ready` is told where it is."""
    with tempfile.TemporaryDirectory() as place:
        shown = together(views, Path(place, "jobs")) if len(views) > 1 else next(iter(views.values()))
        server = Server(shown, Path(place, "log"), free_port(port))
        try:
            while not (url := server.url) and not server.has_ended:
                time.sleep(STEP_SECONDS)
            if url:
                ready([Board(name, url, one.log_dir, one.is_empty) for name, one in views.items()])
            while not server.has_ended:
                time.sleep(STEP_SECONDS)
            raise Refusal(f"TensorBoard ended by itself: {server.said.strip()[-500:]}")
        finally:
            server.stop()


def free_port(wanted: int | None) -> int:
    """The port to ask for: the one that is wanted if it is free, without a wish the usual one, or 0 for any."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, USUAL_PORT if wanted is None else wanted))
        except OSError as error:
            if wanted is None:
                return 0
            hint = "Choose another one, or leave --port out."
            raise Refusal(f"port {wanted} cannot be used: {error.strerror}", hint) from None
    return USUAL_PORT if wanted is None else wanted


class TensorBoardProcess:
    """The TensorBoard beside a run, kept up by the run's driver while the job asks for one."""

    def __init__(self, machine: Machine, folder: Path, publish: Callable[[Event], None]) -> None:
        self._machine = machine
        self._folder = folder
        self._publish = publish
        self._made_of: Deployment | None = None
        self._server: Server | None = None
        self._told = self._refused = False
        self._pause, self._not_before = FIRST_PAUSE, 0.0

    def sync(self, wanted: Deployment | None) -> None:
        """One look: start, tell where it is, start again, stop."""
        if _spec(wanted) != _spec(self._made_of):
            self.close()
            self._made_of, self._refused, self._pause, self._not_before = wanted, False, FIRST_PAUSE, 0.0
        if wanted is None or self._refused:
            return
        if self._server is None:
            if time.monotonic() >= self._not_before:
                try:
                    self._start(wanted)
                except OSError as error:  # a full disk, or no more processes
                    self._try_later(f"cannot be started: {error}")
        elif self._server.has_ended:
            said = self._server.said[-500:].strip()
            self._server = None
            self._try_later(f"ended: {said}")
        elif not self._told and (url := self._server.url):
            self._told = True
            shown = self._server.view
            nothing = f" (no event files yet in {shown.log_dir})" if shown.is_empty else f" shows {shown.log_dir}"
            self._publish(Event("TensorBoard", f"TensorBoard at {url}{nothing}"))

    def close(self) -> None:
        """Ends it."""
        if self._server is not None:
            self._server.stop()
        self._server, self._told = None, False

    def _try_later(self, why: str) -> None:
        logger.warning("TensorBoard %s; again in %.0f s", why, self._pause)
        self._not_before = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _start(self, wanted: Deployment) -> None:
        self._told = False
        try:
            shown = view(wanted, self._machine, self._folder / "tensorboard")
        except NotInstalled:
            self._refused = True  # told when the job was submitted
        except Refusal as refusal:
            self._refused = True
            self._publish(Event("TensorBoardRefused", f"no TensorBoard: {refusal}", warning=True))
        else:
            self._server = Server(shown, self._folder / "tensorboard.log")


def _spec(deployment: Deployment | None) -> object:
    return deployment and deployment.spec
