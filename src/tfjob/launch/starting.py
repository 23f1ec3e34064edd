"""From a manifest file to jobs that run: what the command line asks for, and who starts them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import click
from msgspec.structs import replace

from tfjob.api.manifest.loader import Entry, Manifest
from tfjob.api.problems import InvalidManifest, Problem, errors, in_order
from tfjob.api.types import TFJob
from tfjob.cli import exit_codes
from tfjob.cli.context import On
from tfjob.jobs.backend import Console, Record
from tfjob.launch.manifest_file import read, taken, without_contents
from tfjob.launch.script import ScriptRequest, is_script, refuse_options_of_a_script, script_manifest
from tfjob.plan.facts.conditions import is_finished


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
    script: ScriptRequest = field(default_factory=ScriptRequest)
    warm: bool | None = None


class Launch(Protocol):
    """The jobs of a manifest, judged and ready to start somewhere."""

    @property
    def written(self) -> Callable[[], str]:
        """Gives the manifest of the jobs, for `tfjob run` or for `kubectl create`."""

    def show(self, output: str) -> int:
        """Prints what would start."""

    def detach(self, output: str) -> int:
        """Starts every job in the background and says how to go on."""

    def attach(self, output: str, *, plain: bool) -> int:
        """Starts every job, shows its logs, `plain` or live, and ends with the worst of their exit codes."""


def launch(on: On, request: Request) -> Launch:
    """The jobs of a manifest for here or there; raises for every error before anything starts."""
    if on.cluster:
        from tfjob.launch.cluster import ClusterLaunch

        return ClusterLaunch(on, request)
    from tfjob.launch.local import LocalLaunch

    return LocalLaunch(request)


def jobs_of(request: Request, *, cluster: bool = False) -> tuple[bytes, Manifest]:
    """The manifest's bytes and what they hold: at least one job, and no error."""
    if is_script(request.file):
        if request.parameters:
            hint = f"Arguments of the script go after --: tfjob run {request.file} -- ..."
            raise exit_codes.Stop(exit_codes.BAD_INPUT, "-p is for manifests", hint)
        data = script_manifest(request.file, request.script, request.name, cluster=cluster)
        manifest = taken(data, f"the manifest of {request.file}")
    else:
        refuse_options_of_a_script(request.file, request.script)
        data, manifest = read(request.file, request.parameters, request.name)
    manifest.raise_for_errors()
    if not manifest.jobs:
        raise exit_codes.Stop(exit_codes.BAD_INPUT, f"{request.file}: there is no job in it")
    return data, manifest


def written(request: Request, data: bytes, manifest: Manifest) -> str:
    """A manifest with its parameters filled in and its job renamed: a script's as it is, a file's in v1.

    What a Secret holds is not shown.
    """
    if is_script(request.file):
        return data.decode()
    from msgspec import to_builtins

    from tfjob.api.text.writer import yaml_text
    from tfjob.api.types import API_VERSION
    from tfjob.api.versions.registry import to_version

    jobs = [to_builtins(to_version(entry.written, API_VERSION)[0]) for entry in manifest.entries]
    return yaml_text([*without_contents(manifest.objects), *jobs])


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


def ended(
    there: Console, started: Sequence[str], records: Sequence[Record], output: str, *, width: int | None = None
) -> int:
    """The end of an attached run: its last words and its exit code. `started` are the names of its jobs.

    In a terminal of a known `width` it also says where the files are and what to type next.
    """
    from tfjob.jobs.output import job_shape, print_list
    from tfjob.jobs.report import ending, guidance

    if output != "text":
        print_list("Job", [job_shape(record) for record in records], output)
    else:
        for record in records:
            click.echo(ending(record))
        for name in started:
            if name not in {record.name for record in records}:
                click.echo(f"{name} was deleted")
        if width is not None:
            for record in records:
                click.echo(guidance(record, there.storage(record), width))
    if not all(is_finished(record.job.status) for record in records):
        return exit_codes.INTERRUPTED
    succeeded = all(record.state == "Succeeded" for record in records) and len(records) == len(started)
    return exit_codes.SUCCEEDED if succeeded else exit_codes.FAILED
