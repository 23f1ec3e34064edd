"""What runs in place of an image on this machine: an interpreter, a working folder and a command.

The configuration is searched for an image by its full name, by its name without tag and digest, then by patterns in the
order of the files. A container with a command needs no entry. It runs in the chosen environment: `--python` of the
command line, else the nearest `.venv` upward from the manifest, else the interpreter that runs tfjob.

TensorBoard and the model server of TensorFlow Serving run as programs of tfjob, unless the configuration has an entry
for their image.
"""

from __future__ import annotations

import fnmatch
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tfjob.api import servers
from tfjob.api.servers import has_entry_point
from tfjob.local.inputs import environment
from tfjob.local.state.config import PROJECT_FILE, Config, ConfigError, ImageEntry, upward
from tfjob.local.state.errors import Refusal

_TAG_OR_DIGEST = re.compile(r"(?::[\w][\w.-]*)?(?:@[\w:+.-]+)?$", re.ASCII)
_PYTHON_NAMES = ("python", "python3")
_SERVING_MODULES = ("aiohttp", "google.protobuf", "grpc", "grpc_health", "grpc_reflection", "numpy", "orjson")
"""What the extra `serve` installs."""


class ImageError(Refusal):
    """An image or an interpreter that this machine does not have."""


@dataclass(frozen=True)
class Runtime:
    """What replaces a container's image.

    `command` and `args` are the image's ENTRYPOINT and CMD, as far as the configuration states them. `links` are the
    names of Python that need a link to `python`, because its folder has no such program or a different one. `folders`
    maps paths of the image to folders of this machine. `server` is the program of tfjob that runs in place of the first
    word.
    """

    python: Path
    workdir: Path
    command: list[str]
    args: list[str]
    env: Mapping[str, str]
    links: tuple[str, ...]
    folders: Mapping[str, Path]
    server: str = ""


def resolve(
    container: Mapping[str, Any], config: Config, *, python: Path | None, project: Path, module: str = ""
) -> Runtime:
    """Return the runtime of a container; if only tfjob's own interpreter has a needed `module`, it uses that one."""
    image = container.get("image") or ""
    configured = find_entry(image, config)
    entry = configured or ImageEntry(name=image, file=Path(PROJECT_FILE))
    server = "" if configured else servers.server_of(container)
    if server and has_entry_point(container):
        entry = replace(entry, env=servers.MODEL_SERVER_ENV)
    if not (container.get("command") or entry.command or entry.args or server):
        name = container.get("name", "")
        raise ImageError(
            f"container '{name}' has no command, and tfjob does not know what image '{image}' runs",
            f"Give the container a command, or add one for the image to {entry.file}:\n"
            f'[images."{entry.name}"]\ncommand = ["python", "main.py"]',
        )
    interpreter = serving_interpreter() if server == servers.MODEL_SERVER else _interpreter(entry, python, project)
    module = servers.TENSORBOARD if server == servers.TENSORBOARD else module
    if module:
        interpreter = interpreter_with(module, interpreter, _has_module_remembered)
    names = {name: interpreter.parent / name for name in _PYTHON_NAMES}
    return Runtime(
        python=interpreter,
        workdir=Path(container.get("workingDir") or entry.workdir or project),
        command=list(entry.command or ()),
        args=list(entry.args or ()),
        env=entry.env,
        links=tuple(name for name, path in names.items() if not (path.exists() and path.samefile(interpreter))),
        folders=_existing_folders(entry),
        server=server,
    )


def argv(container: Mapping[str, Any], runtime: Runtime, variables: Mapping[str, str]) -> list[str]:
    """Return the arguments to execute; as on a cluster, `$(VAR)` in those of the image is not expanded."""
    command = [environment.expand(word, variables) for word in container.get("command") or []]
    args = [environment.expand(word, variables) for word in container.get("args") or []]
    if runtime.server:
        given = servers.entry_arguments(variables) + args if has_entry_point(container) else (command + args)[1:]
        own = servers.command_of(runtime.server, str(runtime.python))
        return own + servers.arguments_of(runtime.server, given)
    return command + args if command else runtime.command + (args or runtime.args)


def serving_interpreter() -> Path:
    """Return our own interpreter. Raises ImageError if it cannot run the model server."""
    if missing := [one for one in _SERVING_MODULES if not _is_installed(one)]:
        hint = f"Install it: {sys.executable} -m pip install 'tfjob[serve,tensorflow]'"
        raise ImageError(f"the model server needs the extra 'serve' of tfjob: {missing[0]} is not installed", hint)
    if not _is_installed("tensorflow"):
        hint = f"Install it: {sys.executable} -m pip install 'tfjob[tensorflow]'"
        raise ImageError(f"the model server needs TensorFlow, which {sys.executable} does not have", hint)
    return Path(sys.executable)


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package
        return False


def write_links(runtime: Runtime, folder: Path) -> Path | None:
    """Create `folder` with the links that the runtime needs first on PATH; return None if it needs none."""
    if not runtime.links:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    for name in runtime.links:
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(runtime.python)
    return folder


def find_entry(image: str, config: Config) -> ImageEntry | None:
    bare = _TAG_OR_DIGEST.sub("", image, count=1)
    for name in (image, bare):
        if name in config.images:
            return config.images[name]
    for pattern, entry in config.images.items():
        if any(fnmatch.fnmatchcase(name, pattern) for name in (image, bare)):
            return entry
    return None


def _interpreter(entry: ImageEntry, python: Path | None, project: Path) -> Path:
    if entry.python:
        return _existing(Path(shutil.which(entry.python) or entry.python), entry, "python")
    if entry.virtualenv is not None:
        return _existing(entry.virtualenv / "bin" / "python", entry, "virtualenv")
    return chosen_interpreter(python, project)


def chosen_interpreter(python: Path | None, project: Path) -> Path:
    """Return `--python` (an interpreter, its name, or a virtualenv), else the project's `.venv`, else our own."""
    if python is not None:
        found = python / "bin" / "python" if python.is_dir() else Path(shutil.which(python) or python)
        if not _executable(found):
            hint = "Pass an interpreter or the folder of a virtualenv."
            raise ImageError(f"--python {python}: no Python interpreter found", hint)
        return found.absolute()
    for folder in upward(project):
        venv = folder / ".venv"
        if (venv / "pyvenv.cfg").is_file():
            found = venv / "bin" / "python"
            if not _executable(found):
                hint = "Create it again, or choose one with --python."
                raise ImageError(f"the virtualenv {venv} has no interpreter", hint)
            return found
    return Path(sys.executable)


def interpreter_with(module: str, chosen: Path, has: Callable[[Path, str], bool] | None = None) -> Path:
    """Return the chosen interpreter if it has a module, else our own. Raises ImageError."""
    own = Path(sys.executable)
    for one in dict.fromkeys((chosen, own)):
        if (has or has_module)(one, module):
            return one
    package = f"'tfjob[{module}]'" if chosen == own else module
    raise ImageError(f"{module} is not installed in {chosen}", f"Install it: {chosen} -m pip install {package}")


def has_module(python: Path, name: str) -> bool:
    """Return whether an interpreter finds a module, without importing it."""
    program = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({name!r}) is None)"
    done = subprocess.run([python, "-c", program], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return done.returncode == 0


_has_module_remembered = cache(has_module)
"""For pods that cannot start, which are retried every other second."""


def _existing(path: Path, entry: ImageEntry, setting: str) -> Path:
    if not _executable(path):
        text = f"no Python interpreter at {path}"
        raise ConfigError(entry.file, text, "Correct the path, or create it.", key=entry.key(setting))
    return path.absolute()


def _existing_folders(entry: ImageEntry) -> Mapping[str, Path]:
    for inside, here in entry.folders.items():
        if not here.is_dir():
            key = f'{entry.key("folders")}."{inside}"'
            raise ConfigError(entry.file, f"folder {here} does not exist", "Correct the path, or create it.", key=key)
    return entry.folders


def _executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
