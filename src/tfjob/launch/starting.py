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
from tfjob.launch.errors import InvalidRequest
from tfjob.launch.manifest_file import read, taken, without_contents
from tfjob.launch.script import ScriptRequest, is_script, refuse_options_of_a_script, script_manifest


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

    def show(self, output: str) -> None:
        """Prints what would start."""

    def detach(self, output: str, *, quiet: bool) -> bool:
        """Starts every job in the background and says how to continue; returns whether a user interrupted that."""


def jobs_of(request: Request, *, cluster: bool = False) -> tuple[bytes, Manifest]:
    """The manifest's bytes and what they hold: at least one job, and no error."""
    if is_script(request.file):
        if request.parameters:
            hint = f"Arguments of the script go after --: tfjob run {request.file} -- ..."
            raise InvalidRequest("-p is for manifests", hint)
        data = script_manifest(request.file, request.script, request.name, cluster=cluster)
        manifest = taken(data, f"the manifest of {request.file}")
    else:
        refuse_options_of_a_script(request.file, request.script)
        data, manifest = read(request.file, request.parameters, request.name)
    manifest.raise_for_errors()
    if not manifest.jobs:
        raise InvalidRequest(f"{request.file}: there is no job in it")
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


def report_problems(problems: Iterable[Problem]) -> None:
    """Shows the warnings and raises the errors."""
    ordered = in_order(problems)
    for problem in ordered:
        if problem.warning:
            click.echo(str(problem), err=True)
    if refused := errors(ordered):
        raise InvalidManifest(refused)


def with_namespace(entry: Entry, job: TFJob, namespace: str, otherwise: str) -> TFJob:
    """The job, in the namespace of the command line if it names none itself, and else in another."""
    own = entry.written.metadata.namespace
    if own and namespace and own != namespace:
        place = entry.located(Problem("metadata.namespace", f"is {own}, and the command line says -n {namespace}"))
        raise InvalidManifest([place])
    return replace(job, metadata=replace(job.metadata, namespace=own or namespace or otherwise))
