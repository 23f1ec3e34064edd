"""Programs and Python scripts that containers name and that are not on this machine.

They may be in the image, which is not run here. A warning and no refusal: a program of the same pod, or the user, may
put the file there before it is needed. What cannot be known beforehand is not judged: words with `$(VAR)`, shell
lines, modules, and whatever lies in a volume.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfjob.api.problems import Path as At
from tfjob.api.problems import Problem, path_text
from tfjob.api.types import TFJob
from tfjob.local.admission.admission import Host
from tfjob.local.inputs import environment, images
from tfjob.local.state.errors import Refusal

HINT = "images are not run here, see docs/guides/images.md"

_PYTHON = re.compile(r"python[\d.]*")
_TAKES_A_WORD = ("--check-hash-based-pycs",)


def problems(job: TFJob, host: Host) -> list[Problem]:
    """A warning for every container whose program, script or working folder is nowhere to be found."""
    found: list[Problem] = []
    for kind, replica in job.spec.tf_replica_specs.items():
        if replica.replicas == 0 or replica.template is None:
            continue
        pod = replica.template.get("spec") or {}
        for group in ("initContainers", "containers"):
            for index, container in enumerate(pod.get(group) or []):
                at: At = ("spec", "tfReplicaSpecs", kind, "template", "spec", group, index)
                found += _container_problems(container, at, host)
    return found


def _container_problems(container: Mapping[str, Any], at: At, host: Host) -> Iterator[Problem]:
    try:
        runtime = images.resolve(container, host.config, python=host.python, project=host.project)
    except Refusal:
        return  # said already
    words = images.argv(container, runtime, {})
    folder = Path(os.path.normpath(host.project / runtime.workdir))
    mounted = [os.path.normpath(mount.get("mountPath") or "/") for mount in container.get("volumeMounts") or []]
    if not words or _is_open(str(folder)) or any("$(" in word for word in words[:1]):
        return
    if not _is_there(folder, mounted, runtime):
        where = "workingDir" if container.get("workingDir") else "image"
        yield _absent((*at, where), f"the working folder {folder}")
        return
    if not _is_program(words[0], folder, mounted, runtime, _search_path(container, runtime, host)):
        yield _absent(_place(container, at, 0), f"the program {words[0]}")
    elif (number := script(words)) and not _is_open(words[number]):
        file = Path(os.path.normpath(folder / words[number]))
        if not _is_there(file, mounted, runtime):
            yield _absent(_place(container, at, number), f"the script {file}")


def script(words: Sequence[str]) -> int:
    """Which of a command's words is the file that Python is to run; 0 if none is."""
    if not _PYTHON.fullmatch(Path(words[0]).name):
        return 0
    number = 1
    while number < len(words):
        word = words[number]
        if word == "-" or not word.startswith("-"):
            return number if word not in ("", "-") else 0
        number += 2 if word in _TAKES_A_WORD else 1
        for position, letter in enumerate(word[1:] if not word.startswith("--") else "", 2):
            if letter in "cmhV?":
                return 0
            if letter in "WX":  # its value is the rest of this word, or else the next one
                number += position == len(word)
                break
    return 0


def _is_program(
    word: str, folder: Path, mounted: Sequence[str], runtime: images.Runtime, search_path: str | None
) -> bool:
    if "/" in word:
        return _is_there(Path(os.path.normpath(folder / word)), mounted, runtime)
    if word in ("python", "python3") or search_path is None:  # those two are led to the chosen interpreter
        return True
    folders = [str(folder / part) for part in search_path.split(":")]
    return shutil.which(word, path=":".join(folders)) is not None or any(_is_mounted(part, mounted) for part in folders)


def _search_path(container: Mapping[str, Any], runtime: images.Runtime, host: Host) -> str | None:
    """The PATH that the container gets; None if it comes from somewhere that is not looked at here."""
    if container.get("envFrom"):
        return None
    for variable in reversed(container.get("env") or []):
        if variable.get("name") == "PATH":
            said = str(variable.get("value") or "")
            return said if said and not _is_open(said) else None
    return runtime.env.get("PATH") or environment.from_host(host.environ, runtime.path_prefix)["PATH"]


def _is_there(path: Path, mounted: Sequence[str], runtime: images.Runtime) -> bool:
    return runtime.place(path).exists() or _is_mounted(str(path), mounted)


def _is_mounted(path: str, mounted: Sequence[str]) -> bool:
    """Whether a volume is at the path or above it, or below it and so makes the folder."""
    return any((f"{path}/").startswith(f"{target}/") or target.startswith(f"{path}/") for target in mounted)


def _is_open(text: str) -> bool:
    """Whether a text is known only when its variables are."""
    return "$(" in text


def _place(container: Mapping[str, Any], at: At, number: int) -> At:
    """Where the manifest says a word of the whole command; the image's own words are those of its entry."""
    command, args = container.get("command") or [], container.get("args") or []
    if number < len(command):
        return (*at, "command", number)
    if command and number - len(command) < len(args):
        return (*at, "args", number - len(command))
    return (*at, "image")


def _absent(at: At, what: str) -> Problem:
    return Problem(path_text(at), f"{what} is not on this machine", HINT, warning=True)
