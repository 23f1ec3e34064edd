"""TensorBoard in the foreground, for `tfjob tensorboard`: for one job or several, running or finished.

The process belongs to the command and ends with it.
"""

from __future__ import annotations

import math
import os
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from tfjob.api.objects import ObjectMeta, Pod
from tfjob.api.servers import TENSORBOARD_OPTIONS, TENSORBOARD_PROGRAM
from tfjob.api.types import TensorBoard, TFJob
from tfjob.jobs.backend import Board, NotFound
from tfjob.local.inputs import environment
from tfjob.local.inputs.images import chosen_interpreter, interpreter_with
from tfjob.local.jobs.places import find_places
from tfjob.local.pod.assembly import Machine
from tfjob.local.run.tensorboard import EVENT_FILES, MODULE, has_no_events, log_folder
from tfjob.local.state.errors import Refusal
from tfjob.local.state.store import Run
from tfjob.plan.build.job_storage import OUTPUT, similar_names
from tfjob.plan.build.settings import Settings
from tfjob.plan.build.tensorboard import deployment
from tfjob.plan.facts.conditions import is_finished

PROGRAM = f"""
import ctypes, os, sys
parent = int(sys.argv.pop(1))
try:
    ctypes.CDLL(None).prctl(1, 15)  # SIGTERM when the command ends, for any reason
except AttributeError:
    pass
if os.getppid() != parent:
    sys.exit(0)
{TENSORBOARD_PROGRAM}"""
HOST = "127.0.0.1"
URL = re.compile(rf"TensorBoard \S+ at (http://{re.escape(HOST)}:\d+/)")
USUAL_PORT = 6006
USUAL_FOLDERS = ("logs", "runs")
"""The folders to which programs write event files by habit."""
CLOCK_STEP = 0.05
"""Seconds by which the time of a file may be behind the clock: file systems use one with coarse steps."""
STEP_SECONDS = 0.05


@dataclass(frozen=True)
class TensorBoardView:
    """What to show: an interpreter that has TensorBoard, the real folders of a job, the environment variables.

    It `is_empty` if the job has no event files yet.
    """

    python: Path
    log_dirs: Sequence[str]
    env: dict[str, str]
    is_empty: bool = False


def view(run: Run, machine: Machine, log_dir: str = "") -> TensorBoardView:
    """Return the TensorBoard of a job: of `log_dir`, else of the folder in its manifest, else where its events are.

    Creates the volumes that the manifest gives to TensorBoard.
    """
    job = run.decode(TFJob)
    folders, is_empty = [log_dir] if log_dir else [], None
    if not log_dir and job.spec.tensor_board is None:
        folders, is_empty = find_events(run, job, machine)
    if folders:
        job = replace(job, spec=replace(job.spec, tensor_board=TensorBoard(log_dir=folders[0])))
    wanted = deployment(job, Settings())
    metadata = ObjectMeta(name=wanted.metadata.name, namespace=wanted.metadata.namespace)
    pod = Pod(metadata=metadata, spec=wanted.spec["template"]["spec"])
    (container,) = pod.spec["containers"]
    python = interpreter_with(MODULE, chosen_interpreter(machine.python, machine.project))
    variables = environment.resolve(
        container, pod, references=machine.references, node=machine.node, environ=machine.environ
    )
    shown = folders or [log_folder(pod, machine, run.folder / "tensorboard")]
    is_empty = has_no_events(shown[0]) if is_empty is None else is_empty
    return TensorBoardView(python, shown, variables.variables(), is_empty)


def find_events(run: Run, job: TFJob, machine: Machine) -> tuple[list[str], bool]:
    """Return the folders in which a job has written event files, and False.

    These may be its storage, the folders that its output variables name, and the usual ones in its working folder,
    where other programs write too. For an unfinished job that has not written any yet, return all of them, and True.
    Raises NoEvents for a finished one.
    """
    own, usual = _folders(run, job, machine)
    end = job.status.completion_time if is_finished(job.status) else None
    times = run.created.timestamp() - CLOCK_STEP, end.timestamp() if end else math.inf
    found = [folder for folder in own if not has_no_events(str(folder))]
    found += [folder for folder in usual if _was_written(folder, *times)]
    if not found and (end or not own):
        raise NoEvents(run.id, [*own, *usual])
    return [str(folder) for folder in found or [*own, *usual]], not found


def _folders(run: Run, job: TFJob, machine: Machine) -> tuple[Sequence[Path], list[Path]]:
    """Return the folders that belong to a job, and the usual ones in its working folder."""
    places = find_places(run, job, machine)
    return (places.own, [places.work / one for one in USUAL_FOLDERS]) if places else ([], [])


def _was_written(folder: Path, start: float, end: float) -> bool:
    """Return whether a folder has an event file that was last written between two times."""
    for file in folder.rglob(EVENT_FILES):
        with suppress(OSError):
            if start <= file.stat().st_mtime <= end:
                return True
    return False


def together(views: Mapping[str, TensorBoardView], links: Path) -> TensorBoardView:
    """Return one TensorBoard for several jobs or folders: a new folder with a folder of each job, unless it is alone.

    The folder contains links, because TensorBoard's own list of folders (`--logdir_spec`) shows a folder that two jobs
    share only once and does not support commas in paths. Raises Refusal for an object store, which cannot be linked.
    """
    first = next(iter(views.values()))
    if len(views) == len(first.log_dirs) == 1:
        return first
    for name, one in views.items():
        if store := next((folder for folder in one.log_dirs if "://" in folder), ""):
            hint = f"Show it alone: tfjob tensorboard {name}"
            raise Refusal(f"{name} logs to an object store ({store}) and cannot be shown with other jobs", hint)
    links.mkdir()
    for name, one in views.items():
        place = links / name if len(views) > 1 else links
        if len(one.log_dirs) == 1:
            place.symlink_to(one.log_dirs[0])
            continue
        place.mkdir(exist_ok=True)
        for folder in one.log_dirs:
            taken = (place / free for free in similar_names(Path(folder).name))
            next(free for free in taken if not free.is_symlink()).symlink_to(folder)
    return TensorBoardView(first.python, [str(links)], first.env)


class NoEvents(NotFound):
    """A job that has ended and has written no event files; the hint says what to do."""

    def __init__(self, name: str, searched: Sequence[Path]) -> None:
        hint = f"Write event files to the folder in {OUTPUT}, or name their folder with --logdir."
        super().__init__(f"{name} has written no event files to {', '.join(map(str, searched))}", hint)


class Server:
    """A TensorBoard process that writes to the file `log`."""

    def __init__(self, shown: TensorBoardView, log: Path, port: int = 0) -> None:
        self._log = log
        (log_dir,) = shown.log_dirs
        words = ["--logdir", log_dir, "--host", HOST, "--port", str(port)]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [shown.python, "-c", PROGRAM, str(os.getpid()), *words, *TENSORBOARD_OPTIONS],
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
        shown = together(views, Path(place, "jobs"))
        server = Server(shown, Path(place, "log"), free_port(port))
        try:
            while not (url := server.url) and not server.has_ended:
                time.sleep(STEP_SECONDS)
            if url:
                ready([Board(name, url, ", ".join(one.log_dirs), one.is_empty) for name, one in views.items()])
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
