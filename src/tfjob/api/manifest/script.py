"""Make a manifest for a training script. Every replica runs the script and reads its role from TF_CONFIG.

job_manifest(Script(["python", "train.py", "--epochs", "3"]), Counts(workers=2, chief=True), "train", image)
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import PurePath, PurePosixPath
from typing import Any

from tfjob.api.types import API_VERSION, CHIEF, CONTAINER_NAME, EVALUATOR, KIND, PS, TF_CONFIG, WORKER
from tfjob.api.validation import possible_name
from tfjob.errors import InvalidRequest

IMAGE = "tensorflow/tensorflow"
"""The default image of a script's manifest. Local runs use the local Python instead."""
LONGEST_NAME = 40
"""The maximum length of a job name that is made from a script's name; replica names are longer."""
DIGEST = 6
"""Hexadecimal digits that tell two folders of the same name apart."""
BACKOFF_LIMIT = 3
GRACE_SECONDS = 10
"""TensorFlow keeps training after SIGTERM, so the usual 30 s would only delay the end."""


@dataclass(frozen=True)
class Counts:
    """The number of replicas of each type; `workers` is None if not given."""

    workers: int | None = None
    ps: int = 0
    chief: bool = False
    evaluators: int = 0

    def by_type(self) -> dict[str, int]:
        """Return the counts of types with replicas: at least one worker, or a chief without parameter servers."""
        workers = self.workers
        if workers is None:
            workers = 0 if self.chief and not self.ps else 1
        if self.evaluators > 1:
            message = f"--evaluator {self.evaluators}: a job has at most one evaluator"
            raise InvalidRequest(message, "Use --evaluator 1.")
        if not workers and self.ps:
            raise InvalidRequest("--ps needs at least one worker", "Add --workers 1.")
        if not workers and not self.chief:
            raise InvalidRequest("no replica would train", "Add --chief or at least one worker.")
        counts = {CHIEF: int(self.chief), WORKER: workers, PS: self.ps, EVALUATOR: self.evaluators}
        return {name: count for name, count in counts.items() if count}


@dataclass(frozen=True)
class Script:
    """A command that runs in the working folder of the replicas."""

    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)


def name_of(command: Sequence[str]) -> str:
    """Return a job name for a command, such as `train-mnist` for `python src/train_mnist.py`."""
    program = file_of(command) or PurePosixPath(command[0])
    return possible_name(program.stem)[:LONGEST_NAME].rstrip("-") or "job"


def file_of(command: Sequence[str]) -> PurePosixPath | None:
    """Return the Python file or shell script that a command runs; a module has the path that it has in its folder."""
    if "-m" in command[:-1]:
        module = command[command.index("-m") + 1].removesuffix(".__main__")
        return PurePosixPath(module.replace(".", "/"))
    return next((PurePosixPath(word) for word in command if word.endswith((".py", ".sh"))), None)


def names_in(folder: PurePath, name: str) -> list[str]:
    """Return possible names for a job of a folder, from the shortest to one that no other folder has."""
    longer = f"{name}-{possible_name(folder.name) or 'job'}"[:LONGEST_NAME].rstrip("-")
    digest = sha256(str(folder).encode()).hexdigest()[:DIGEST]
    unique = f"{longer[: LONGEST_NAME - DIGEST - 1].rstrip('-')}-{digest}"
    return [name, longer, unique]


def job_manifest(script: Script, counts: Counts, name: str, image: str = "") -> dict[str, Any]:
    """Return the manifest of the job. Raises InvalidRequest."""
    template = {"spec": _pod(script, image or IMAGE)}
    specs = {
        kind: {"replicas": count, "restartPolicy": "ExitCode", "template": template}
        for kind, count in counts.by_type().items()
    }
    # A program that was asked to train with `--workers 1` may read TF_CONFIG, as it does with more workers.
    is_lone = counts.workers == 1 and sum(counts.by_type().values()) == 1
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, **({"annotations": {TF_CONFIG: "always"}} if is_lone else {})},
        "spec": {"runPolicy": {"backoffLimit": BACKOFF_LIMIT}, "tfReplicaSpecs": specs},
    }


def _pod(script: Script, image: str) -> dict[str, Any]:
    command = [*map(_unexpanded, script.command)]
    container: dict[str, Any] = {"name": CONTAINER_NAME, "image": image, "command": command}
    if script.env:
        container["env"] = [{"name": name, "value": _unexpanded(value)} for name, value in script.env.items()]
    return {"terminationGracePeriodSeconds": GRACE_SECONDS, "containers": [container]}


def _unexpanded(word: str) -> str:
    """Escape an argument for a manifest, where `$(VAR)` is a variable and `$$` means `$`."""
    return word.replace("$", "$$") if "$(" in word or "$$" in word else word


def check_syntax(source: bytes) -> None:
    """Raise SyntaxError if a program is not valid Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "", "exec", dont_inherit=True)
    except ValueError as error:  # null characters
        raise SyntaxError(str(error)) from None
    except (RecursionError, MemoryError):
        raise SyntaxError("it is nested too deeply") from None
