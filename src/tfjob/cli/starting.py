"""From a manifest file to stored jobs: what the command line asks for, what this machine says to it, and the start."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import click
from msgspec.structs import replace

from tfjob.api.manifest import Entry, Manifest
from tfjob.api.problems import InvalidManifest, Problem, errors, in_order, path_parts
from tfjob.api.types import TFJob
from tfjob.cli import outcome
from tfjob.cli.context import state
from tfjob.cli.manifest_file import pairs, read, without_secrets
from tfjob.controller.cluster import Key
from tfjob.local import admission, config, machine, runs, submission
from tfjob.local.home import Home
from tfjob.local.images import chosen_interpreter
from tfjob.local.options import Options
from tfjob.local.store import Store
from tfjob.local.submission import Started, Submission


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


def _placed(entry: Entry, namespace: str) -> TFJob:
    """The job, in the namespace of the command line if it names none itself."""
    own = entry.written.metadata.namespace
    if own and namespace and own != namespace:
        place = entry.located(Problem("metadata.namespace", f"is {own}, and the command line says -n {namespace}"))
        raise InvalidManifest([place])
    return replace(entry.job, metadata=replace(entry.job.metadata, namespace=own or namespace or "default"))


def options_of(request: Request) -> tuple[Options, list[str]]:
    """How the jobs will use this machine, and what to say about it."""
    project = project_of(request.file)
    settings = config.load(project, os.environ)
    mapped = pairs(request.volumes, "--volume", what="NAME=FOLDER")
    python = str(Path(request.python).expanduser().absolute()) if os.sep in request.python else request.python
    if python:
        chosen_interpreter(Path(python), project)
    choice = machine.choose(request.level or settings.level, "off" if request.no_limits else settings.limits)
    return Options(
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


def local_problems(manifest: Manifest, options: Options) -> list[Problem]:
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
    from tfjob.cli import dry_run

    with state(write=False) as (home, store):
        dry_run.show(home, store, wanted, output)
    return outcome.SUCCEEDED


def detach(wanted: Sequence[Submission], output: str) -> int:
    """Starts every job in the background and says how to go on."""
    from tfjob.cli.report import next_commands
    from tfjob.cli.shapes import job_shape, print_list
    from tfjob.local.console import record
    from tfjob.local.driving import start_background

    with state(write=True) as (home, store):
        started = start_all(home, store, wanted, attached=False)
        records = [record(begun.run) for begun in started]
        for begun in started:
            start_background(home, begun.run, begun.lock)
    if output == "json":
        print_list("Job", [job_shape(one) for one in records])
    for one in records if output == "text" else ():
        click.echo(next_commands(one))
    return outcome.SUCCEEDED


def start_all(home: Home, store: Store, wanted: Sequence[Submission], *, attached: bool) -> list[Started]:
    """Stores all jobs of a manifest or, if one is refused, none."""
    for one in wanted:
        submission.refuse_if_in_use(store, Key(one.job.metadata.namespace, one.job.metadata.name))
    started = []
    with ExitStack() as undo:
        for one in wanted:
            started.append(submission.submit(home, store, one, attached=attached))
            undo.callback(runs.remove, store, started[-1].run)
        undo.pop_all()
    return started
