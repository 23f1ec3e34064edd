"""A SavedModel of the latest checkpoint of a job: a program with the job's Python builds the model and restores it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tfjob.errors import InvalidRequest
from tfjob.serve.job_models import Models

PROGRAM = Path(__file__).parents[1] / "programs" / "export_checkpoint.py"
LAST_LINES = 5
"""Lines of stderr that an error of the user's program shows."""


@dataclass(frozen=True)
class Request:
    """The job, the function that builds the model (`model.py:build`), and the folder of checkpoints (default: its)."""

    models: Models
    program: str
    checkpoints: str = ""


@contextmanager
def exported(request: Request) -> Iterator[Path]:
    """Yield a temporary folder with the SavedModel. Raises InvalidRequest."""
    places = request.models.places
    if places is None:
        raise InvalidRequest(f"{request.models.name} is not a job", "--program exports a checkpoint of a job.")
    checkpoints = Path(request.checkpoints).expanduser().absolute() if request.checkpoints else places.checkpoints
    if checkpoints is None:
        raise InvalidRequest(f"{request.models.job} has no folder for checkpoints", "Name it: --checkpoints FOLDER")
    file, separator, function = request.program.rpartition(":")
    if not (separator and file and function.isidentifier()):
        raise InvalidRequest(f"invalid program '{request.program}'", "Use FILE:FUNCTION, such as model.py:build.")
    with tempfile.TemporaryDirectory(prefix="tfjob-export-") as temporary:
        folder = Path(temporary, "model")
        words = [f"{Path(file).expanduser().absolute()}:{function}", str(checkpoints), str(folder)]
        command = [str(places.python), str(PROGRAM), *words]
        env = {"TF_CPP_MIN_LOG_LEVEL": "2", **places.variables}
        _run(command, env, places.work)
        yield folder


def _run(command: list[str], env: dict[str, str], work: Path) -> None:
    try:
        done = subprocess.run(command, env=env, cwd=work, capture_output=True, text=True, check=False)
    except OSError as error:
        raise InvalidRequest(f"cannot start {command[0]}: {error.strerror}") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        hint = os.linesep.join([*lines[-LAST_LINES:-1], f"To see all of its output: {shlex.join(command)}"])
        raise InvalidRequest(f"the program failed: {lines[-1]}", hint)
    answer = json.loads(done.stdout.splitlines()[-1])
    if "error" in answer:
        raise InvalidRequest(answer["error"], answer["hint"])
