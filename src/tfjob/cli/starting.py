"""From a manifest file to jobs that run: what the command line asks for, and who starts them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import click
from msgspec.structs import replace

from tfjob.api.manifest import Entry, Manifest
from tfjob.api.problems import InvalidManifest, Problem, errors, in_order
from tfjob.api.types import TFJob
from tfjob.cli import outcome
from tfjob.cli.context import On
from tfjob.cli.manifest_file import read
from tfjob.controller.console import Record
from tfjob.plan.plan import is_finished


@dataclass(frozen=True)
class Request:
    """What a `run` command line asks for."""

    file: str
    parameters: Sequence[str] = ()
    name: str = ""
    namespace: str = ""
    python: str = ""
    volumes: Sequence[str] = ()
    level: str | None = None
    no_limits: bool = False
    cpu: bool = False
    warm: bool | None = None


class Launch(Protocol):
    """The jobs of a manifest, judged and ready to start somewhere."""

    def show(self, output: str) -> int:
        """Prints what would start."""

    def detach(self, output: str) -> int:
        """Starts every job in the background and says how to go on."""

    def attach(self, output: str, *, plain: bool) -> int:
        """Starts every job, shows its logs, `plain` or live, and ends with the worst of their exit codes."""


def launch(on: On, request: Request) -> Launch:
    """The jobs of a manifest for here or there; raises for every error before anything starts."""
    if on.cluster:
        from tfjob.cli.cluster_launch import ClusterLaunch

        return ClusterLaunch(on, request)
    from tfjob.cli.local_launch import LocalLaunch

    return LocalLaunch(request)


def jobs_of(request: Request) -> tuple[bytes, Manifest]:
    """The manifest's bytes and what they hold: at least one job, and no error."""
    data, manifest = read(request.file, request.parameters, request.name)
    manifest.raise_for_errors()
    if not manifest.jobs:
        raise outcome.Stop(outcome.BAD_INPUT, f"{request.file}: there is no job in it")
    return data, manifest


def tell(problems: Iterable[Problem]) -> None:
    """Shows the warnings and raises the errors."""
    ordered = in_order(problems)
    for problem in ordered:
        if problem.warning:
            click.echo(str(problem), err=True)
    if refused := errors(ordered):
        raise InvalidManifest(refused)


def placed(entry: Entry, job: TFJob, namespace: str, otherwise: str) -> TFJob:
    """The job, in the namespace of the command line if it names none itself, and else in another."""
    own = entry.written.metadata.namespace
    if own and namespace and own != namespace:
        place = entry.located(Problem("metadata.namespace", f"is {own}, and the command line says -n {namespace}"))
        raise InvalidManifest([place])
    return replace(job, metadata=replace(job.metadata, namespace=own or namespace or otherwise))


def ended(started: Sequence[str], records: Sequence[Record], output: str, *, width: int | None = None) -> int:
    """The end of an attached run: its last words and its exit code. `started` are the names of its jobs.

    In a terminal of a known `width` it also says where the files are and what to type next.
    """
    from tfjob.cli.report import ending, guidance
    from tfjob.cli.shapes import job_shape, print_list

    if output == "json":
        print_list("Job", [job_shape(record) for record in records])
    else:
        for record in records:
            click.echo(ending(record))
        for name in started:
            if name not in {record.name for record in records}:
                click.echo(f"{name} was deleted")
        if width is not None:
            for record in records:
                click.echo(guidance(record, width))
    if not all(is_finished(record.job.status) for record in records):
        return outcome.INTERRUPTED
    succeeded = all(record.state == "Succeeded" for record in records) and len(records) == len(started)
    return outcome.SUCCEEDED if succeeded else outcome.FAILED
