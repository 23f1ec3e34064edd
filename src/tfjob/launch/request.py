"""A request: a manifest file or a script with the options of `tfjob run`; and how to read its manifest.

This module must be cheap to import, because shell completion loads it.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfjob.errors import InvalidRequest
from tfjob.launch.target import On

if TYPE_CHECKING:
    from tfjob.api.manifest.loader import Manifest
    from tfjob.api.problems import Problem

INTERPRETERS = {".py": "python", ".sh": "bash"}
MANIFESTS = (".yaml", ".yml")
NAME_OF_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MOST_PARSED = 64 * 1024
"""Bytes of a program whose syntax is checked before a run, which takes less than 10 ms. `tfjob check` reads more."""
SECRET_NAME = re.compile(r"SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE", re.IGNORECASE)


@dataclass(frozen=True)
class ScriptRequest:
    """The options that only apply to programs: scripts, modules and commands."""

    module: str = ""
    workers: int | None = None
    ps: int | None = None
    chief: bool = False
    evaluator: int | None = None
    image: str = ""
    in_image: bool = False
    env: Sequence[str] = ()
    env_file: Sequence[str] = ()
    arguments: Sequence[str] = ()

    def options(self) -> list[str]:
        used = [one.name for one in fields(self) if getattr(self, one.name) not in (one.default, [])]
        return ["--" if name == "arguments" else f"--{name.replace('_', '-')}" for name in used]


@dataclass(frozen=True)
class Request:
    """A manifest or a script with its target and options; `python` to `cpu`, `warm` and `share_storage` are for this
    machine.
    """

    file: str
    parameters: Sequence[str] = ()
    name: str = ""
    namespace: str = ""
    python: str = ""
    volumes: Sequence[str] = ()
    level: str | None = None
    no_limits: bool = False
    cpu: bool = False
    script: ScriptRequest = field(default_factory=ScriptRequest)
    warm: bool | None = None
    share_storage: bool = False
    target: On = field(default_factory=On)
    text: str = ""
    """A generated manifest; `file` is then its name in messages."""

    @property
    def is_program(self) -> bool:
        """Whether it runs a script, a module or a command instead of a manifest."""
        return bool(self.script.module) or not self.file or is_script(self.file)

    @property
    def folder(self) -> Path:
        """The project folder: that of the manifest, or the current one for a program or a manifest from stdin."""
        return Path.cwd() if self.file == "-" or self.is_program else Path(self.file).absolute().parent

    @property
    def program(self) -> str:
        """The program as the user wrote it, for messages."""
        return f"-m {self.script.module}" if self.script.module else self.file or shlex.join(self.script.arguments)


class Unreadable(InvalidRequest):
    """The manifest is not a readable file."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.source} {problem.message}", problem.hint[:1].upper() + problem.hint[1:])
        self.problem = problem


def read_request(request: Request) -> tuple[bytes, Manifest]:
    """Return the bytes and the content of a manifest that has no errors and at least one job or Deployment."""
    data, manifest = load(request)
    manifest.raise_for_errors()
    if not manifest.jobs and not manifest.deployments:
        raise InvalidRequest(f"{request.file} contains no TFJob or Deployment")
    if request.name and not manifest.jobs:
        raise InvalidRequest(f"--name renames a TFJob, but {request.file} has none", "Set the name in the manifest.")
    return data, manifest


def load(request: Request) -> tuple[bytes, Manifest]:
    """Return the bytes and the content of a manifest, or of the manifest of a script, with its problems."""
    from tfjob.api.manifest import loader

    if request.script.in_image and not request.target.cluster:
        raise InvalidRequest("--in-image only applies to a cluster, not to this machine", "Leave it out.")
    if request.is_program:
        if request.parameters:
            raise InvalidRequest("-p only applies to manifests", "Put the arguments of the script after --.")
        data = script_manifest(request)
        return data, loader.load(data, request.program, name=request.name, is_generated=True)
    if request.text:
        return request.text.encode(), loader.load(request.text, request.file, is_generated=True)
    _refuse_script_options(request.file, replace(request.script, in_image=False))
    return read_manifest(request.file, request.parameters, request.name)


def read_manifest(file: str, parameters: Sequence[str], name: str = "") -> tuple[bytes, Manifest]:
    from tfjob.api.manifest import loader

    values = pairs(parameters, "-p")
    data = sys.stdin.buffer.read() if file == "-" else _content(file)
    return data, loader.load(data, "stdin" if file == "-" else file, values, name)


def _content(file: str) -> bytes:
    from tfjob.api.problems import Problem

    if file.startswith(("http://", "https://")):
        hint = f"download it first: curl -fsSLO {file}"
        raise Unreadable(Problem("", "is a URL, which tfjob does not download", hint, source=file))
    path = Path(file)
    if path.is_dir():
        found = sorted(inner for inner in path.iterdir() if inner.suffix in (".yaml", ".yml", ".json"))
        hint = f"name the manifest in it: {found[0]}" if len(found) == 1 else "name a manifest in it"
        raise Unreadable(Problem("", "is a folder", hint, source=file))
    return path.read_bytes()


def manifest_text(request: Request, data: bytes, manifest: Manifest) -> str:
    """Return a script's manifest, or a manifest in v1 with parameters replaced and the content of Secrets hidden."""
    if request.is_program:
        return data.decode()
    from msgspec import to_builtins

    from tfjob.api.text.writer import yaml_text
    from tfjob.api.types import API_VERSION
    from tfjob.api.versions.registry import to_version

    jobs = [to_builtins(to_version(entry.written, API_VERSION)[0]) for entry in manifest.entries]
    return yaml_text([*without_contents(manifest.objects), *jobs])


def without_secrets(data: bytes, manifest: Manifest) -> bytes:
    """Return the manifest for the record of a run, without the content of Secrets, which separate files hold."""
    if not any(document["kind"] == "Secret" for document in manifest.objects):
        return data
    import yaml

    jobs = [entry.part.value for entry in manifest.entries]
    return yaml.safe_dump_all(
        [*without_contents(manifest.objects), *jobs], sort_keys=False, allow_unicode=True
    ).encode()


def without_contents(objects: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [hidden_secret(document) if document["kind"] == "Secret" else document for document in objects]


def hidden_secret(secret: dict[str, Any]) -> dict[str, Any]:
    from tfjob.api.objects import LAST_APPLIED

    contents = {key: dict.fromkeys(secret[key], "(secret)") for key in ("data", "stringData") if secret.get(key)}
    metadata = secret["metadata"]
    if LAST_APPLIED in (metadata.get("annotations") or {}):
        metadata = {**metadata, "annotations": {**metadata["annotations"], LAST_APPLIED: "(secret)"}}
    return {**secret, "metadata": metadata, **contents}


def pairs(arguments: Sequence[str], option: str, form: str = "KEY=VALUE") -> dict[str, str]:
    """Return `KEY=VALUE` arguments as a mapping; messages show `form`."""
    found: dict[str, str] = {}
    for argument in arguments:
        key, separator, value = argument.partition("=")
        if not separator or not key or (form != "KEY=VALUE" and not value):
            raise InvalidRequest(f"invalid argument {option} {argument}: use {form}")
        if key in found:
            raise InvalidRequest(f"{option} {key} is given twice")
        found[key] = value
    return found


# --- scripts ----------------------------------------------------------------------------------------------------------


def request_of(file: str, namespace: str, target: On, options: Mapping[str, Any]) -> Request:
    """Return a request from options named after its fields and those of a script; mappings become `KEY=VALUE`."""
    given = dict(options)
    known = {field.name for field in fields(ScriptRequest)}
    script = ScriptRequest(**{name: given.pop(name) for name in options if name in known})
    for name in ("parameters", "volumes"):
        given[name] = [f"{key}={value}" for key, value in given.get(name, {}).items()]
    return Request(file, namespace=namespace, target=target, script=script, **given)


def is_script(file: str) -> bool:
    return file.endswith(tuple(INTERPRETERS))


def source_folder(request: Request) -> Path:
    """Return the folder to which jobs belong: that of the manifest or of the program's file, else the working folder.

    The file of a module or a command counts if its folder is in the working folder.
    """
    from tfjob.api.manifest.script import file_of

    if request.file not in ("", "-") and not request.script.module:
        return Path(request.file).parent.resolve()
    here = Path.cwd()
    file = file_of(command_of(request)) if request.is_program else None
    found = (here / file).parent.resolve() if file else here
    return found if found.is_dir() and found.is_relative_to(here) else here


def names_of_script(request: Request) -> list[str]:
    """Return possible names for the job of a script, the best one first."""
    from tfjob.api.manifest.script import name_of, names_in

    return names_in(source_folder(request), name_of(command_of(request)))


def script_manifest(request: Request) -> bytes:
    from tfjob.api.manifest.script import Counts, Script, job_manifest, name_of
    from tfjob.api.text.writer import yaml_text

    asked = request.script
    if request.target.cluster:
        _check_for_cluster(request)
    elif asked.image:
        raise InvalidRequest("--image only applies to a cluster, not to this machine", "Leave it out.")
    if not asked.in_image and not asked.module and request.file:
        _check_readable(request.file)
    script = Script(command_of(request), _declared(asked, cluster=request.target.cluster))
    counts = Counts(asked.workers, asked.ps or 0, asked.chief, asked.evaluator or 0)
    return yaml_text([job_manifest(script, counts, request.name or name_of(script.command), asked.image)]).encode()


def command_of(request: Request) -> list[str]:
    """Return the command of a program; on a cluster, a script has its path in the folder that is sent.

    Raises InvalidRequest without a program.
    """
    asked, file = request.script, request.file
    if not (asked.module or file or asked.arguments):
        raise InvalidRequest("the name of the file is empty", "Name a manifest or a script.")
    if asked.module:
        return ["python", "-m", asked.module, *([request.file] if request.file else []), *asked.arguments]
    if not file:
        return list(asked.arguments)
    if request.target.cluster and not asked.in_image:
        file = os.path.relpath(file)
    return [INTERPRETERS[Path(file).suffix], file, *asked.arguments]


def has_valid_syntax(request: Request) -> bool:
    """Return whether a program is valid Python; True if its file is unknown or large, and for other programs."""
    from tfjob.api.manifest.script import check_syntax

    if request.script.in_image or not request.is_program:
        return True
    if module := request.script.module:
        from tfjob.local.warm.source_scan import find_module

        file = (find_module(module, Path) or (None,))[0]
    else:
        file = Path(request.file) if request.file.endswith(".py") else None
    try:
        if file is not None and file.stat().st_size <= MOST_PARSED:
            check_syntax(file.read_bytes())
    except SyntaxError:
        return False
    return True


def _declared(asked: ScriptRequest, *, cluster: bool) -> dict[str, str]:
    """Return the variables for the manifest of a script: `NAME=VALUE` and, on a cluster, all others.

    On this machine, a run stores only the names of the others, because their values may be secret.
    """
    from tfjob.local.inputs.environment import read_env_file

    found: dict[str, str] = {}
    for file in asked.env_file if cluster else ():
        found |= read_env_file(Path(file), os.environ)
    for one in asked.env:
        name, separator, value = one.partition("=")
        if not NAME_OF_VARIABLE.fullmatch(name):
            hint = "Use letters, digits and '_': --env NAME=VALUE, or --env NAME for the value of the shell."
            raise InvalidRequest(f"--env {one}: '{name}' is not a valid name of a variable", hint)
        if name == "TF_CONFIG":
            raise InvalidRequest(f"--env {one}: tfjob sets TF_CONFIG itself", "Leave it out.")
        if not separator and name not in os.environ:
            raise InvalidRequest(f"--env {name}: this shell has no variable {name}", f"Set it: --env {name}=VALUE")
        if separator or cluster:
            found[name] = value if separator else os.environ[name]
    if cluster and (secret := next(filter(SECRET_NAME.search, found), "")):
        raise InvalidRequest(
            f"{secret} looks like a secret, and a manifest would show its value",
            f"Run this command without {secret} and with --dry-run -o yaml > job.yaml. Then add {secret} to job.yaml,"
            " with a secretKeyRef, and run job.yaml.",
        )
    return found


def names_from_shell(asked: ScriptRequest) -> list[str]:
    return [name for name in asked.env if "=" not in name]


def _refuse_script_options(file: str, asked: ScriptRequest) -> None:
    used = asked.options()
    if not used:
        return
    if used == ["--"]:
        if other := next((one for one in asked.arguments if one.endswith(MANIFESTS) and Path(one).is_file()), ""):
            raise InvalidRequest(f"{file} and {other} are two manifests", "Run the command once for each manifest.")
        what, hint = f"arguments ({' '.join(asked.arguments)}) apply", "Put them into the args of its containers."
    else:
        field = next((field for field in ("image", "env") if field in used[0]), "replicas")
        what, hint = f"{used[0]} applies", f"Set {field} in the manifest."
    raise InvalidRequest(f"{what} only to scripts, but {file} is a manifest", hint)


def _check_for_cluster(request: Request) -> None:
    from tfjob.api.image_reference import image_fault

    asked, file = request.script, request.file
    if not asked.image:
        raise InvalidRequest(
            f"{request.program} needs an image to run in on a cluster",
            "Name one with Python and TensorFlow, such as --image tensorflow/tensorflow:2.21.0",
        )
    message, hint = image_fault(asked.image)
    if message:
        raise InvalidRequest(f"--image: {message}", hint[:1].upper() + hint[1:] + "." if hint else "")
    if is_script(file) and not asked.in_image and os.path.relpath(file).startswith(".."):
        raise InvalidRequest(
            f"{file} is not in the current folder, which tfjob sends to the cluster",
            f"Change to its folder first: cd {shlex.quote(str(Path(file).parent))}",
        )


def _check_readable(file: str) -> None:
    if Path(file).is_dir():
        raise InvalidRequest(f"{file} is a folder", "Name a script in it.")
    try:
        Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidRequest(f"{file} is not valid UTF-8") from None
