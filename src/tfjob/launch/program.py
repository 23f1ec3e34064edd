"""Checks of the Python program that a request runs: its syntax, its imports, and whether it fits its replicas.

Only source files are read. The interpreter that would run the program looks for its modules, but does not import them.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfjob.api.defaults import training_container
from tfjob.api.manifest.program import Runs, read
from tfjob.api.problems import Problem
from tfjob.api.types import TFJob
from tfjob.durations import durations_from
from tfjob.launch import strategies
from tfjob.launch.request import Request, command_of
from tfjob.launch.strategies import Source
from tfjob.local.inputs import environment, images
from tfjob.local.pod import machine
from tfjob.local.state.errors import Refusal
from tfjob.local.warm import policy
from tfjob.local.warm.source_scan import MOST_BYTES, MOST_FILES, find_module, module_files

if TYPE_CHECKING:
    from tfjob.launch.local import Placement

PACKAGES = {"cv2": "opencv-python", "sklearn": "scikit-learn", "skimage": "scikit-image", "PIL": "pillow"}
"""Packages by the names of their modules, where these differ."""
LEGACY_KERAS = "TF_USE_LEGACY_KERAS"
_QUESTION = """
import sys
sys.path = [place for place in sys.path if place]
import importlib.util, json, warnings
warnings.simplefilter("ignore")
asked = json.load(sys.stdin)
sys.path.insert(0, asked["folder"])
answer = {"missing": [], "syntax": {}, "keras": ""}
for name in asked["modules"]:
    try:
        if importlib.util.find_spec(name) is None:
            answer["missing"].append(name)
    except ValueError:
        pass  # it is already loaded
for file in asked["files"]:
    try:
        with open(file, "rb") as opened:
            compile(opened.read(), file, "exec", dont_inherit=True)
    except SyntaxError as error:
        answer["syntax"][file] = [error.msg, error.lineno or 0, error.offset or 0]
    except Exception:
        pass
try:
    from importlib.metadata import version
    answer["keras"] = version("keras")
except ImportError:
    pass
json.dump(answer, sys.stdout)
"""


@dataclass(frozen=True)
class Interpreter:
    """The Python that runs the program on this machine, and its environment variables."""

    python: Path
    env: Mapping[str, str]

    def ask(self, folder: Path, modules: Sequence[str], files: Sequence[str]) -> dict[str, Any] | None:
        """Return which modules it does not find, with `folder` first, and syntax errors; None if it does not work."""
        question = json.dumps({"folder": str(folder.absolute()), "modules": modules, "files": files})
        seconds = durations_from(os.environ).helper_program.total_seconds()
        command = [str(self.python), "-c", _QUESTION]
        try:
            done = subprocess.run(
                command, input=question, env=self.env, capture_output=True, check=True, text=True, timeout=seconds
            )
            answer: dict[str, Any] = json.loads(done.stdout)
        except (OSError, ValueError, subprocess.SubprocessError):
            return None
        return answer


def interpreter_of(placed: Placement, job: TFJob) -> Interpreter | None:
    """Return what runs the program of a script; None if the placement already has a problem with it."""
    options = placed.options
    python = Path(options.python) if options.python else None
    try:
        runtime = images.resolve(_container(job), placed.config, python=python, project=Path(options.project))
    except Refusal:
        return None
    passed = machine.passed(options, os.environ)
    env = {**environment.from_host(options.environ), **runtime.env, **passed, **_declared(job)}
    return Interpreter(runtime.python, env)


def syntax_problems(request: Request, interpreter: Interpreter | None = None) -> list[Problem]:
    """Return a syntax error of the main program, unless the interpreter, which may be newer than ours, accepts it."""
    main = None if request.script.in_image else _main_file(request)
    found = _read_files(*main, most=1) if main else _Files()
    return list(_syntax_problems(found, _answer(found, interpreter))) if found.invalid else []


def problems(request: Request, job: TFJob, interpreter: Interpreter | None) -> list[Problem]:
    """Return the problems of the program of a script; without an interpreter, of its source only."""
    main = _main_file(request)
    if main is None:
        return list(_absent_module(request, interpreter))
    found = _read_files(*main)
    answer = _answer(found, interpreter)
    reported = [*_syntax_problems(found, answer)]
    if interpreter and answer:
        reported += _missing_modules(found, answer["missing"], interpreter.python)
    elif interpreter:
        message = f"the imports were not checked, because {interpreter.python} failed to start"
        reported.append(Problem("", message, source=str(main[0]), warning=True))
    if found.sources and found.sources[0].file == str(main[0]):
        counts = {kind: replica.replicas or 0 for kind, replica in job.spec.tf_replica_specs.items()}
        env = interpreter.env if interpreter else _declared(job)
        reported += strategies.problems(found.sources, counts, _keras(env, answer))
    order = list(found.runs)
    return sorted(reported, key=lambda one: (order.index(one.source), one.line, one.column))


@dataclass
class _Files:
    """The files of a program: the folder of its modules, when each file is imported, and which are not Python."""

    folder: Path = Path()
    runs: dict[str, Runs] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)
    invalid: dict[str, tuple[str, int, int]] = field(default_factory=dict)


def _container(job: TFJob) -> dict[str, Any]:
    return training_container(next(iter(job.spec.tf_replica_specs.values())).template)


def _declared(job: TFJob) -> dict[str, str]:
    return {one["name"]: one["value"] for one in _container(job).get("env") or ()}


def _main_file(request: Request) -> tuple[Path, Path] | None:
    """Return the source file that the request runs, and the folder from which it imports modules."""
    command = command_of(request)
    start = policy.Start(argv=command, env={"PYTHONUNBUFFERED": "1"}, program=command[0])
    named = policy.program(start)
    if isinstance(named, policy.Cold):
        return None
    file = Path(command[named.at])
    if named.module:
        return find_module(command[named.at], Path)
    return (file, file.parent) if file.is_file() else None


def _read_files(main: Path, folder: Path, most: int = MOST_FILES) -> _Files:
    """Read a program and the modules that it imports from its folder, first those that it always imports."""
    found = _Files(folder, {str(main): Runs.ALWAYS})
    waiting = [main]
    for package in (parent / "__init__.py" for parent in main.parents if folder in parent.parents):
        if package.is_file():
            found.runs[str(package)] = Runs.ALWAYS
            waiting.append(package)
    while waiting and len(found.sources) + len(found.invalid) < most:
        file = max(waiting, key=lambda one: found.runs[str(one)])
        waiting.remove(file)
        name, runs = str(file), found.runs[str(file)]
        try:
            if file.stat().st_size > MOST_BYTES:
                continue
            program = read(file.read_bytes(), is_main=file == main)
        except SyntaxError as error:
            found.invalid[name] = error.msg, error.lineno or 0, error.offset or 0
            continue
        except OSError:
            continue
        found.sources.append(Source(name, program, runs))
        for use in program.imports:
            module = use.name.lstrip(".")
            for one in module_files("." * (len(use.name) - len(module)), module, file, folder):
                if str(one) not in found.runs:
                    waiting.append(one)
                found.runs[str(one)] = max(min(runs, use.runs), found.runs.get(str(one), Runs.PERHAPS))
    return found


def _answer(found: _Files, interpreter: Interpreter | None) -> dict[str, Any] | None:
    modules = {use.name.partition(".")[0] for source in found.sources for use in source.program.imports}
    return interpreter.ask(found.folder, sorted(modules - {""}), list(found.runs)) if interpreter else None


def _syntax_problems(found: _Files, answer: dict[str, Any] | None) -> Iterator[Problem]:
    invalid = found.invalid if answer is None else answer["syntax"]
    for file, (message, line, column) in invalid.items():
        is_sure = found.runs[file] is Runs.ALWAYS
        yield Problem("", f"invalid Python: {message}", "", line, column, file, warning=not is_sure)


def _absent_module(request: Request, interpreter: Interpreter | None) -> Iterator[Problem]:
    """Yield a problem if `-m` names a module that is neither in the current folder nor installed."""
    module = request.script.module
    top, path = module.partition(".")[0], module.replace(".", "/")
    if not module or request.script.in_image:
        return
    if any(Path(top).glob("*.py")):
        message = f"this folder has no file {path}.py or {path}/__main__.py"
        yield Problem("", message, "correct the name of the module", source=request.program)
    elif interpreter and (answer := interpreter.ask(Path(), [top], [])) and answer["missing"]:
        yield Problem("", *_not_installed(top, interpreter.python), source=request.program)


def _missing_modules(found: _Files, missing: Sequence[str], python: Path) -> Iterator[Problem]:
    finds_more = any(source.program.changes_path for source in found.sources)
    for name in missing:
        uses = [
            (min(use.runs, source.runs), source, use)
            for source in found.sources
            for use in source.program.imports
            if use.name.partition(".")[0] == name
        ]
        runs, source, use = max(uses, key=lambda one: one[0])
        is_sure = runs is Runs.ALWAYS and not finds_more
        yield Problem("", *_not_installed(name, python), use.line, use.column, source.file, warning=not is_sure)


def _not_installed(module: str, python: Path) -> tuple[str, str]:
    hint = f"install it: {python} -m pip install {PACKAGES.get(module, module)}"
    return f"the module {module} is not installed for {python}", hint


def _keras(env: Mapping[str, str], answer: dict[str, Any] | None) -> int | None:
    """Return the major version of the Keras that TensorFlow uses; None if unknown."""
    if env.get(LEGACY_KERAS, "").lower() in ("1", "true"):
        return strategies.KERAS_3 - 1
    major = answer["keras"].partition(".")[0] if answer else ""
    return int(major) if major.isdecimal() else None
