"""From a manifest file to running jobs: reading, judging, attached and detached start."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from tfjob.api import manifest as manifests
from tfjob.api.manifest import Entry, Manifest
from tfjob.api.problems import InvalidManifest, Problem, errors, in_order, path_parts
from tfjob.api.types import TFJob
from tfjob.cli import dry_run, outcome
from tfjob.cli.context import state
from tfjob.cli.display import Display, show_troubles
from tfjob.cli.report import ending, next_commands
from tfjob.cli.shapes import print_list, run_shape
from tfjob.controller.cluster import Key
from tfjob.local import admission, config, machine, runs
from tfjob.local.driver import Driver, start_background
from tfjob.local.home import Home
from tfjob.local.images import chosen_interpreter
from tfjob.local.runs import Started, Submission
from tfjob.local.store import Store, open_store
from tfjob.plan.plan import is_finished


@dataclass(frozen=True)
class Request:
    """What a `run` command line asks for."""

    file: str
    parameters: Sequence[str]
    name: str
    namespace: str
    python: str
    volumes: Sequence[str]
    level: str | None
    no_limits: bool


def submissions(request: Request) -> list[Submission]:
    """The jobs of a manifest with what this machine gives them; raises for every error before anything starts."""
    data, manifest = read(request.file, request.parameters, request.name)
    manifest.raise_for_errors()
    if not manifest.jobs:
        raise outcome.Stop(outcome.BAD_INPUT, f"{request.file}: there is no job in it")
    options, notes = options_of(request)
    problems = in_order([*manifest.problems, *local_problems(manifest, options)])
    for problem in problems:
        if problem.warning:
            click.echo(str(problem), err=True)
    if refused := errors(problems):
        raise InvalidManifest(refused)
    for note in notes:
        click.echo(note, err=True)
    record = without_secrets(data, manifest)
    return [
        Submission(_placed(entry, request.namespace), manifest.objects, record, options) for entry in manifest.entries
    ]


def read(file: str, parameters: Sequence[str], name: str = "") -> tuple[bytes, Manifest]:
    """A manifest's bytes and what they hold."""
    values = pairs(parameters, "-p")
    data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    return data, manifests.load(data, "stdin" if file == "-" else file, values, name)


def without_secrets(data: bytes, manifest: Manifest) -> bytes:
    """The manifest as it may be kept with a run: the content of its Secrets has files of its own."""
    if not any(document["kind"] == "Secret" for document in manifest.objects):
        return data
    import yaml

    objects = [_hidden(document) if document["kind"] == "Secret" else document for document in manifest.objects]
    jobs = [entry.part.value for entry in manifest.entries]
    return yaml.safe_dump_all([*objects, *jobs], sort_keys=False, allow_unicode=True).encode()


def _hidden(secret: dict[str, Any]) -> dict[str, Any]:
    """A Secret with its keys alone."""
    contents = {key: dict.fromkeys(secret[key], "(secret)") for key in ("data", "stringData") if secret.get(key)}
    return {**secret, **contents}


def _placed(entry: Entry, namespace: str) -> TFJob:
    """The job, in the namespace of the command line if it names none itself."""
    own = entry.written.metadata.namespace
    if own and namespace and own != namespace:
        place = entry.located(Problem("metadata.namespace", f"is {own}, and the command line says -n {namespace}"))
        raise InvalidManifest([place])
    return replace(entry.job, metadata=replace(entry.job.metadata, namespace=own or namespace or "default"))


def options_of(request: Request) -> tuple[machine.Options, list[str]]:
    """How the jobs will use this machine, and what to say about it."""
    project = project_of(request.file)
    settings = config.load(project, os.environ)
    mapped = pairs(request.volumes, "--volume", what="NAME=FOLDER")
    python = str(Path(request.python).expanduser().absolute()) if os.sep in request.python else request.python
    if python:
        chosen_interpreter(Path(python), project)
    choice = machine.choose(request.level or settings.level, "off" if request.no_limits else settings.limits)
    return machine.Options(
        project=str(project),
        level=choice.level,
        limits=choice.limits,
        python=python,
        volumes={name: str(Path(folder).expanduser().absolute()) for name, folder in mapped.items()},
        environ=machine.kept_environ(os.environ),
    ), choice.notes


def project_of(file: str) -> Path:
    """The folder that a manifest's relative paths and its tfjob.toml start from."""
    return Path.cwd() if file == "-" else Path(file).absolute().parent


def local_problems(manifest: Manifest, options: machine.Options) -> list[Problem]:
    """What this machine refuses of a manifest or does otherwise, at its place in the file."""
    project = Path(options.project)
    host = admission.Host(
        config=config.load(project, os.environ),
        project=project,
        node=machine.node(),
        python=Path(options.python) if options.python else None,
        volumes={name: Path(folder) for name, folder in options.volumes.items()},
        level=options.level,
    )
    of_jobs = [entry.located(problem) for entry in manifest.entries for problem in admission.problems(entry.job, host)]
    of_objects = [
        part.located(problem, path_parts(problem.path))
        for part in manifest.object_parts
        for problem in admission.object_problems(part.value)
    ]
    return [*admission.unknown_volumes(manifest.jobs, host.volumes), *of_jobs, *of_objects]


def show(wanted: Sequence[Submission], output: str) -> int:
    """Prints what would start."""
    with state(write=False) as (home, store):
        dry_run.show(home, store, wanted, output)
    return outcome.SUCCEEDED


def detach(wanted: Sequence[Submission], output: str) -> int:
    """Starts every job in the background and says how to go on."""
    with state(write=True) as (home, store):
        started = start_all(home, store, wanted, attached=False)
        for one in started:
            start_background(home, one.run, one.lock)
    if output == "json":
        print_list("Job", [run_shape(one.run) for one in started])
    for one in started if output == "text" else ():
        click.echo(next_commands(one.run))
    return outcome.SUCCEEDED


def attach(wanted: Sequence[Submission], output: str) -> int:
    """Runs every job in this process, shows its logs, and ends with the worst of their exit codes."""
    with state(write=True) as (home, store):
        started = start_all(home, store, wanted, attached=True)
        asyncio.run(drive_all(home, started, quiet=output == "json"))
        ended = [run for run in (store.run(one.run.job.metadata.uid) for one in started) if run is not None]
    if output == "json":
        print_list("Job", [run_shape(run) for run in ended])
    else:
        for run in ended:
            click.echo(ending(run))
        for one in started:
            if one.run.id not in {run.id for run in ended}:
                click.echo(f"{one.run.job.metadata.name} was deleted")
    if not all(is_finished(run.job.status) for run in ended):
        return outcome.INTERRUPTED
    succeeded = all(run.job.status.state == "Succeeded" for run in ended) and len(ended) == len(started)
    return outcome.SUCCEEDED if succeeded else outcome.FAILED


def start_all(home: Home, store: Store, wanted: Sequence[Submission], *, attached: bool) -> list[Started]:
    """Stores all jobs of a manifest or, if one is refused, none."""
    for submission in wanted:
        runs.refuse_if_in_use(store, Key(submission.job.metadata.namespace, submission.job.metadata.name))
    started = []
    with ExitStack() as undo:
        for submission in wanted:
            one = runs.submit(home, store, submission, attached=attached)
            undo.callback(runs.remove, store, one.run)
            started.append(one)
        undo.pop_all()
    return started


async def drive_all(home: Home, started: Sequence[Started], *, quiet: bool) -> None:
    """Drives runs until all are at rest; Ctrl-C stops them, a second one kills."""
    drivers = []
    displays = []
    for one in started:
        # A connection each: what one driver has seen of the store must not hide it from another.
        store = open_store(home.database)
        display = Display(store, one.run, several=len(started) > 1)
        drivers.append(
            Driver(home, store, one.run, attached=True, lock=one.lock, on_news=None if quiet else display.news)
        )
        displays.append(display)
    for display in displays:
        display.width = max(other.width for other in displays)
    show_troubles(displays[0])
    interrupts = 0

    def interrupt() -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts == 1:
            click.echo("stopping; press Ctrl-C again to kill", err=True)
        for driver in drivers:
            driver.stop() if interrupts == 1 else driver.kill()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, interrupt)
    for display in () if quiet else displays:
        display.begin()
    try:
        ticks = [(lambda: None) if quiet else display.tick for display in displays]
        await asyncio.gather(*(driver.drive(tick) for driver, tick in zip(drivers, ticks, strict=True)))
    finally:
        for display in () if quiet else displays:
            display.finish()
        for driver in drivers:
            driver.store.close()


def pairs(words: Sequence[str], option: str, what: str = "KEY=VALUE") -> dict[str, str]:
    """`KEY=VALUE` words as a mapping."""
    found: dict[str, str] = {}
    for word in words:
        key, separator, value = word.partition("=")
        if not separator or not key or (what != "KEY=VALUE" and not value):
            raise outcome.Stop(outcome.BAD_INPUT, f"{option} {word}: write it as {what}")
        if key in found:
            raise outcome.Stop(outcome.BAD_INPUT, f"{option} {key} is given twice")
        found[key] = value
    return found
