"""The configuration of this machine: `tfjob.toml` of the project and the user's own `config.toml`.

    [images."registry.example.com/team/train*"]     # a name, or a pattern with * ? [ ]
    virtualenv = ".venv"                             # or: python = "/usr/bin/python3.12"
    workdir = "src"
    command = ["python", "-m", "train"]              # the image's ENTRYPOINT
    args = ["--epochs", "3"]                         # the image's CMD
    env = { TF_CPP_MIN_LOG_LEVEL = "1" }
    folders = { "/opt/train" = "src" }               # folder of the image = folder of this machine

    [volumes]
    datasets = "/mnt/datasets"                       # any volume of a manifest, by its name

    [run]
    pass-env = ["MY_TOKEN", "MYLIB_*"]               # variables of the calling shell that scripts get

    [local]
    level = "auto"                                   # auto, full, addresses, ports
    limits = "auto"                                  # auto, cgroup, poll, off
    log_max_bytes = "10Mi"
    log_files = 5
    gpu = false                                      # true: every replica sees all GPUs
    warm = false                                     # never fork replicas from a process with TensorFlow loaded
    warm_idle = 600                                  # seconds that this process waits for the next run

The project's file is the nearest `tfjob.toml` upward from the manifest. Both files support the same keys; the project's
file overrides the user's, key by key (an image entry is one key). Relative paths start at the folder of the file.
"""

from __future__ import annotations

import posixpath
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tfjob.api import quantity
from tfjob.api.suggest import nearest
from tfjob.local.state.errors import Refusal

PROJECT_FILE = "tfjob.toml"
PASSED = "pass-env"
LEVELS = ("auto", "full", "addresses", "ports")
LIMITS = ("auto", "cgroup", "poll", "off")


class ConfigError(Refusal):
    """A configuration file that cannot be used: the file, the key, the reason, and what to write instead."""

    def __init__(self, path: Path, message: str, hint: str = "", *, key: str = "") -> None:
        super().__init__(f"{path}: {key}: {message}" if key else f"{path}: {message}", hint)
        self.path = path


@dataclass(frozen=True, kw_only=True)
class ImageEntry:
    """The configuration of one image; `python` is a path, or a name to find on PATH."""

    name: str
    file: Path
    python: str = ""
    virtualenv: Path | None = None
    workdir: Path | None = None
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, Path] = field(default_factory=dict)

    def key(self, setting: str) -> str:
        return f'images."{self.name}".{setting}'


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings of all configuration files, with defaults for the rest."""

    images: Mapping[str, ImageEntry] = field(default_factory=dict)
    volumes: Mapping[str, Path] = field(default_factory=dict)
    pass_env: tuple[str, ...] = ()
    level: str = "auto"
    limits: str = "auto"
    log_max_bytes: int = 10 * 1024 * 1024
    log_files: int = 5
    gpu: bool = False
    warm: bool | None = None
    warm_idle: int = 600
    files: tuple[Path, ...] = ()


def load(start: Path, environ: Mapping[str, str]) -> Config:
    """Return the configuration for a manifest in folder `start`: the user's file, overridden by the project's."""
    config = Config()
    for file in (user_file(environ), project_file(start)):
        if file is not None and file.is_file():
            config = overlay(config, file)
    return config


def overlay(config: Config, file: Path) -> Config:
    file = file.absolute()
    document = _read(file)
    _only_known(document, _TABLES, file, "")
    images, volumes, run, local = (_table(document.get(name, {}), file, name) for name in _TABLES)
    images = {name: _image(name, entry, file) for name, entry in images.items()}
    volumes = {name: _path(folder, file, f"volumes.{name}") for name, folder in volumes.items()}
    _only_known(run, _RUN, file, "run")
    passed = _words(run.get(PASSED, []), file, f"run.{PASSED}")
    _only_known(local, _LOCAL, file, "local")
    settings = {key: _LOCAL[key](value, file, f"local.{key}") for key, value in local.items()}
    # Entries of the later file come first: patterns are tried in this order.
    return replace(
        config,
        images=images | {name: entry for name, entry in config.images.items() if name not in images},
        volumes={**config.volumes, **volumes},
        pass_env=(*config.pass_env, *passed),
        files=(file, *config.files),
        **settings,
    )


def user_file(environ: Mapping[str, str]) -> Path | None:
    home = environ.get("HOME")
    base = environ.get("XDG_CONFIG_HOME") or (home and f"{home}/.config")
    return Path(base, "tfjob", "config.toml") if base else None


def project_file(start: Path) -> Path | None:
    return next((folder / PROJECT_FILE for folder in upward(start) if (folder / PROJECT_FILE).is_file()), None)


def upward(start: Path) -> Iterator[Path]:
    """Yield `start` and the folders above it that belong to the same project.

    The search ends at the root of a git repository. It never enters a folder above `start` that every user can write
    to, such as /tmp, because files there decide which programs run.
    """
    start = start.absolute()
    for folder in (start, *start.parents):
        if folder != start and _everyone_writes(folder):
            return
        yield folder
        if (folder / ".git").exists():
            return


def _everyone_writes(folder: Path) -> bool:
    try:
        return bool(folder.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return False


def _read(file: Path) -> dict[str, Any]:
    import tomllib  # few projects have a configuration file

    try:
        found = file.stat()
        return _parse(file, (found.st_ino, found.st_mtime_ns, found.st_size))
    except tomllib.TOMLDecodeError as error:
        number = re.search(r"table declaration.* line (\d+)", str(error))
        line = file.read_text(encoding="utf-8").splitlines()[int(number[1]) - 1] if number else ""
        hint = 'Put names with "/", ":" or "*" in quotes, as in [images."NAME"].' if re.search("[/:*]", line) else ""
        raise ConfigError(file, f"is not valid TOML: {error}", hint) from None
    except UnicodeDecodeError:
        raise ConfigError(file, "is not a UTF-8 text file") from None
    except OSError as error:
        raise ConfigError(file, f"cannot be read: {error.strerror}") from None


@lru_cache(maxsize=8)
def _parse(file: Path, version: tuple[int, ...]) -> dict[str, Any]:
    """Read each version of a file once: checks, the driver and the storage of a run all load the configuration."""
    import tomllib

    return tomllib.loads(file.read_text(encoding="utf-8"))


def _image(name: str, value: object, file: Path) -> ImageEntry:
    key = f'images."{name}"'
    entry = _table(value, file, key)
    _only_known(entry, _IMAGE, file, key)
    settings = {setting: _IMAGE[setting](value, file, f"{key}.{setting}") for setting, value in entry.items()}
    if "python" in settings and "virtualenv" in settings:
        raise ConfigError(file, "python and virtualenv cannot both be set", "Remove one of them.", key=key)
    return ImageEntry(name=name, file=file, **settings)


def _only_known(table: Mapping[str, Any], known: Mapping[str, Any], file: Path, key: str) -> None:
    for name in table:
        if name not in known:
            close = nearest(name, known)
            hint = f"Did you mean {close}?" if close else f"Known keys: {', '.join(known)}."
            raise ConfigError(file, "unknown key", hint, key=f"{key}.{name}" if key else name)


def _table(value: object, file: Path, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        hint = f"Write [{key}] on a separate line, with its settings below."
        raise ConfigError(file, "must be a table", hint, key=key)
    return value


def _text(value: object, file: Path, key: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(file, "must be a string in quotes", key=key)
    return value


def _path(value: object, file: Path, key: str) -> Path:
    return file.parent / Path(_text(value, file, key)).expanduser()


def _python(value: object, file: Path, key: str) -> str:
    text = _text(value, file, key)
    return str(_path(text, file, key)) if "/" in text or text.startswith("~") else text


def _words(value: object, file: Path, key: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        example = '["MY_TOKEN"]' if key.endswith(PASSED) else '["python", "main.py"]'
        hint = f"Write {key.rpartition('.')[2]} = {example}."
        raise ConfigError(file, "must be a list of strings", hint, key=key)
    return tuple(value)


def _variables(value: object, file: Path, key: str) -> dict[str, str]:
    return {name: _text(text, file, f"{key}.{name}") for name, text in _table(value, file, key).items()}


def _folders(value: object, file: Path, key: str) -> dict[str, Path]:
    found = {}
    for inside, here in _table(value, file, key).items():
        target = posixpath.normpath(inside)
        if not target.startswith("/") or target.strip("/") == "":
            raise ConfigError(file, "must be an absolute path in the image, below /", key=f'{key}."{inside}"')
        found[target] = _path(here, file, f'{key}."{inside}"')
    return found


def _one_of(*choices: str) -> Callable[[object, Path, str], str]:
    def check(value: object, file: Path, key: str) -> str:
        if value not in choices:
            raise ConfigError(file, f"must be one of {', '.join(choices)}, not {value!r}", key=key)
        return str(value)

    return check


def _size(value: object, file: Path, key: str) -> int:
    try:
        size = quantity.whole(value) if isinstance(value, (str, int)) else 0
    except ValueError:
        size = 0
    if size < 4096:
        raise ConfigError(file, 'must be a number of bytes, at least 4096, such as 10485760 or "10Mi"', key=key)
    return size


def _number(least: int) -> Callable[[object, Path, str], int]:
    def check(value: object, file: Path, key: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ConfigError(file, f"must be a whole number, at least {least}", key=key)
        return value

    return check


def _flag(value: object, file: Path, key: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(file, "must be true or false", key=key)
    return value


_Check = dict[str, "Callable[[object, Path, str], Any]"]

_TABLES = dict.fromkeys(("images", "volumes", "run", "local"))
_RUN = dict.fromkeys((PASSED,))
_IMAGE: _Check = {
    "python": _python,
    "virtualenv": _path,
    "workdir": _path,
    "command": _words,
    "args": _words,
    "env": _variables,
    "folders": _folders,
}
_LOCAL: _Check = {
    "level": _one_of(*LEVELS),
    "limits": _one_of(*LIMITS),
    "log_max_bytes": _size,
    "log_files": _number(2),  # a single file could not be rotated without losing lines for its readers
    "gpu": _flag,
    "warm": _flag,
    "warm_idle": _number(0),
}
