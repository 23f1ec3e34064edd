"""Make a manifest for a training script. Every replica runs the script and reads its role from TF_CONFIG.

documents(Script(["python", "train.py", "--epochs", "3"]), Counts(workers=2, chief=True), "train", image)
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from tfjob.api.types import API_VERSION, CHIEF, CONTAINER_NAME, EVALUATOR, KIND, PS, TF_CONFIG, WORKER
from tfjob.api.validation import possible_name
from tfjob.errors import InvalidRequest

IMAGE = "tensorflow/tensorflow"
"""The default image of a script's manifest. Local runs use the local Python instead."""
LONGEST_NAME = 40
"""The maximum length of a job name that is made from a script's name; replica names are longer."""
SCRIPT_FOLDER = "/opt/tfjob-script"
"""The mount path of the ConfigMap with the script."""
MOST_BYTES = 1_000_000
"""The maximum size of a script in a ConfigMap, for which Kubernetes allows 1 MiB in total."""
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
    """A command that runs in the working folder of the replicas. With `text`, its second word is a file to upload."""

    command: Sequence[str]
    text: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        return PurePosixPath(self.command[1]).name


def name_of(command: Sequence[str]) -> str:
    """Return a job name for a command, such as `train-mnist` for `python src/train_mnist.py`."""
    if "-m" in command[:-1]:
        program = command[command.index("-m") + 1].removesuffix(".__main__").rpartition(".")[2]
    else:
        program = next((word for word in command if word.endswith((".py", ".sh"))), command[0])
    return possible_name(PurePosixPath(program).stem)[:LONGEST_NAME].rstrip("-") or "job"


def documents(script: Script, counts: Counts, name: str, image: str = "") -> list[dict[str, Any]]:
    """Return the documents of the manifest: the job, and a ConfigMap if it needs one. Raises InvalidRequest."""
    config_map = f"{name}-script"
    template = {"spec": _pod(script, config_map, image or IMAGE)}
    specs = {
        kind: {"replicas": count, "restartPolicy": "ExitCode", "template": template}
        for kind, count in counts.by_type().items()
    }
    # A program that was asked to train with `--workers 1` may read TF_CONFIG, as it does with more workers.
    is_lone = counts.workers == 1 and sum(counts.by_type().values()) == 1
    job = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, **({"annotations": {TF_CONFIG: "always"}} if is_lone else {})},
        "spec": {"runPolicy": {"backoffLimit": BACKOFF_LIMIT}, "tfReplicaSpecs": specs},
    }
    if script.text is None:
        return [job]
    content = {script.file_name: script.text}
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": config_map}, "data": content}, job]


def _pod(script: Script, config_map: str, image: str) -> dict[str, Any]:
    command = list(script.command)
    if script.text is not None:
        command[1] = f"{SCRIPT_FOLDER}/{script.file_name}"
    container: dict[str, Any] = {"name": CONTAINER_NAME, "image": image, "command": [*map(_unexpanded, command)]}
    if script.env:
        container["env"] = [{"name": name, "value": _unexpanded(value)} for name, value in script.env.items()]
    pod: dict[str, Any] = {"terminationGracePeriodSeconds": GRACE_SECONDS, "containers": [container]}
    if script.text is not None:
        container["volumeMounts"] = [{"name": "script", "mountPath": SCRIPT_FOLDER}]
        pod["volumes"] = [{"name": "script", "configMap": {"name": config_map}}]
    return pod


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


def upload_problem(text: str, alongside: Set[str] | None) -> str:
    """Return why a script cannot run from a ConfigMap; `alongside` are the modules in its folder, None for a shell.

    A syntax error is not a reason: the check of the program reports it.
    """
    if len(text.encode()) > MOST_BYTES:
        return f"it is larger than {MOST_BYTES:,} bytes, the most that fits in a ConfigMap"
    if alongside is None:
        return ""
    try:
        needed = _imported(ast.parse(text)) & alongside
    except (SyntaxError, ValueError):
        return ""
    return f"it imports {', '.join(sorted(needed))}, which would not be uploaded with it" if needed else ""


def _imported(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found
