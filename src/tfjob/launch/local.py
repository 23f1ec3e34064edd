"""From a manifest to jobs of this machine: what it says to them, and how they start."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import click

from tfjob.api.manifest.loader import Entry, Manifest
from tfjob.api.problems import Problem, path_parts
from tfjob.api.types import KIND
from tfjob.controller.kind import Key
from tfjob.launch.manifest_file import pairs, without_secrets
from tfjob.launch.script import is_script
from tfjob.launch.starting import Request, jobs_of, report_problems, with_namespace, written
from tfjob.local.admission import absent_programs, admission
from tfjob.local.admission import missing as missing_objects
from tfjob.local.inputs import gpus
from tfjob.local.inputs.images import chosen_interpreter
from tfjob.local.inputs.references import References, brought
from tfjob.local.pod import machine
from tfjob.local.run import submission
from tfjob.local.run.submission import Started, Submission
from tfjob.local.state import config
from tfjob.local.state.home import Home, find_home
from tfjob.local.state.options import Options
from tfjob.local.state.store import Store, open_state
from tfjob.plan.policy import cleanup

logger = logging.getLogger(__name__)

CLEAN_POD_POLICY = "spec.runPolicy.cleanPodPolicy"
ENDS_WITH_US = "None keeps no replica of an attached run: all end with it"


class LocalLaunch:
    """The jobs of a manifest with what this machine gives them."""

    def __init__(self, request: Request) -> None:
        data, manifest = jobs_of(request)
        options, notes = options_of(request)
        report_problems([*manifest.problems, *local_problems(manifest, options, request.namespace)])
        for note in notes:
            click.echo(note, err=True)
        record = without_secrets(data, manifest)
        self._entries = manifest.entries
        self.written = partial(written, request, data, manifest)
        self.submissions = [
            Submission(
                with_namespace(entry, entry.job, request.namespace, "default"), manifest.objects, record, options
            )
            for entry in manifest.entries
        ]

    def show(self, output: str) -> None:
        """Prints the processes."""
        from tfjob.launch import dry_run

        with _state(write=False) as (home, store):
            dry_run.show(home, store, self.submissions, output)

    def detach(self, output: str, *, quiet: bool) -> bool:
        """Starts a driver for each job."""
        from tfjob.jobs.output import job_shape, print_list
        from tfjob.jobs.report import next_commands
        from tfjob.local.jobs.backend import record
        from tfjob.local.run.driver_lock import start_background

        with _state(write=True) as (home, store):
            started = start_all(home, store, self.submissions, attached=False)
            records = [record(begun.run) for begun in started]
            found = [(one.name, event.message) for one in records for _, event in store.events(one.uid)]
            for begun in started:
                start_background(home, begun.run, begun.lock)
        for name, message in () if quiet else found:
            click.echo(f"{name}: {message}", err=True)
        if output != "text":
            print_list("Job", [job_shape(one) for one in records], output)
        for one in records if output == "text" else ():
            click.echo(one.name if quiet else next_commands(one))
        return False

    def tell_attached(self) -> None:
        """Warns about settings that an attached run cannot honor."""
        report_problems(
            entry.located(Problem(CLEAN_POD_POLICY, ENDS_WITH_US, "to keep them, use tfjob submit", warning=True))
            for entry in self._entries
            if entry.job.spec.run_policy.clean_pod_policy == cleanup.NONE
        )


def _state(*, write: bool) -> AbstractContextManager[tuple[Home, Store]]:
    return open_state(find_home(os.environ), write=write)


def options_of(request: Request) -> tuple[Options, list[str]]:
    """How the jobs will use this machine, and what to say about it."""
    project = project_of(request.file)
    settings = config.load(project, os.environ)
    mapped = pairs(request.volumes, "--volume", what="NAME=FOLDER")
    python = str(Path(request.python).expanduser().absolute()) if os.sep in request.python else request.python
    if python:
        chosen_interpreter(Path(python), project)
    logger.debug("configuration: %s", ", ".join(map(str, settings.files)) or "none")
    choice = machine.choose(request.level or settings.level, "off" if request.no_limits else settings.limits)
    logger.debug("project folder %s, level %s, limits %s", project, choice.level, choice.limits)
    return Options(
        project=str(project),
        level=choice.level,
        limits=choice.limits,
        python=python,
        cpu=request.cpu,
        warm=settings.warm if request.warm is None else request.warm,
        volumes={name: str(Path(folder).expanduser().absolute()) for name, folder in mapped.items()},
        environ=machine.kept_environ(os.environ),
    ), choice.notes


def project_of(file: str) -> Path:
    """The folder that a manifest's relative paths and its tfjob.toml start from; a script's manifest is made here."""
    return Path.cwd() if file == "-" or is_script(file) else Path(file).absolute().parent


def local_problems(manifest: Manifest, options: Options, namespace: str) -> list[Problem]:
    """What this machine refuses of a manifest or does otherwise, at its place in the file.

    `namespace` is the command line's, for jobs that name none.
    """
    project = Path(options.project)
    host = admission.Host(
        config=config.load(project, os.environ),
        project=project,
        node=machine.node(),
        python=Path(options.python) if options.python else None,
        cpu=options.cpu,
        gpus=gpus.found(options.environ),
        volumes={name: Path(folder) for name, folder in options.volumes.items()},
        level=options.level,
        environ=options.environ,
    )
    of_jobs = [
        entry.located(problem)
        for entry in manifest.entries
        for problem in (*admission.problems(entry.job, host), *absent_programs.problems(entry.job, host))
    ]
    of_objects = [
        part.located(problem, path_parts(problem.path))
        for part in manifest.object_parts
        for problem in admission.object_problems(part.value)
    ]
    mapped = {*host.config.volumes, *host.volumes}
    missing = [
        entry.located(problem)
        for entry in manifest.entries
        for problem in missing_objects.problems(entry.job, _references(manifest, entry, namespace), mapped)
    ]
    return [*admission.unknown_volumes(manifest.jobs, host.volumes), *of_jobs, *of_objects, *missing]


def _references(manifest: Manifest, entry: Entry, namespace: str) -> References:
    """What a job will find; the state is opened only for what the manifest does not bring along."""
    place = entry.written.metadata.namespace or namespace or "default"

    def config_map(name: str) -> Mapping[str, Any] | None:
        with _state(write=False) as (home, store):
            return machine.kept_references(home, store, place).config_map(name)

    def secret(name: str) -> Mapping[str, Any] | None:
        with _state(write=False) as (home, store):
            return machine.kept_references(home, store, place).secret(name)

    return brought(manifest.objects, place, References(config_map=config_map, secret=secret))


def start_all(home: Home, store: Store, wanted: Sequence[Submission], *, attached: bool) -> list[Started]:
    """Stores all jobs of a manifest or, if one is refused, none."""
    for one in wanted:
        submission.refuse_if_in_use(store, Key(one.job.metadata.namespace, one.job.metadata.name, KIND))
    started = []
    with ExitStack() as undo:
        for one in wanted:
            started.append(submission.submit(home, store, one, attached=attached))
            undo.callback(submission.remove_run, store, started[-1].run)
        undo.pop_all()
    return started
