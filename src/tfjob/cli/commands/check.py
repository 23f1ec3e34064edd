"""`tfjob check`: what is wrong with a manifest, and where."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from tfjob.cli.completion import FILE
from tfjob.cli.context import On, is_quiet, open_cluster_backend, output_option, place, valid_namespace

if TYPE_CHECKING:
    from tfjob.api.manifest.loader import Manifest
    from tfjob.api.problems import Problem


@click.command()
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@click.option("-p", "parameters", multiple=True, metavar="KEY=VALUE", help="Replace ${KEY} in the manifest.")
@click.option(
    "--on",
    default=None,
    metavar="WHERE",
    callback=place,
    help="local: also what this machine refuses; k8s or k8s:CONTEXT: what a cluster would say.",
)
@click.option("--python", default="", metavar="PATH", help="With --on local: the interpreter or virtualenv to run in.")
@click.option(
    "--volume", "volumes", multiple=True, metavar="NAME=FOLDER", help="With --on local: a folder for a volume."
)
@click.option(
    "-n", "--namespace", default="", metavar="NAME", callback=valid_namespace, help="Namespace for a job without one."
)
@output_option
def check(
    files: tuple[str, ...],
    parameters: tuple[str, ...],
    on: On | None,
    python: str,
    volumes: tuple[str, ...],
    namespace: str,
    output: str,
) -> int:
    """Judge manifests: every error with its path, line and column. The exit code is 2 if there is one.

    On a cluster nothing is made: its API server judges the job as if it were, and what the job needs is looked for:
    Secrets, ConfigMaps, claims, quota, rights.
    """
    import msgspec

    from tfjob.api.problems import errors
    from tfjob.cli import exit_codes

    found = {file: _judged(file, parameters, _judge(on, python, volumes, namespace)) for file in files}
    faulty = any(errors(problems) for problems, _ in found.values())
    if output != "text":
        from tfjob.cli.output import print_list

        print_list(
            "Problem", [msgspec.to_builtins(problem) for problems, _ in found.values() for problem in problems], output
        )
        return exit_codes.BAD_INPUT if faulty else exit_codes.SUCCEEDED
    for file, (problems, jobs) in found.items():
        for problem in problems:
            click.echo(str(problem))
        if not errors(problems) and not is_quiet():
            click.echo(f"{file}: ok ({', '.join(jobs) or 'no job'})")
    return exit_codes.BAD_INPUT if faulty else exit_codes.SUCCEEDED


Judge = Callable[["Manifest"], list["Problem"]]


def _judge(on: On | None, python: str, volumes: tuple[str, ...], namespace: str) -> Judge:
    """Return what else judges a manifest that has no errors of its own."""
    if on is None:
        return lambda manifest: []

    def ask_cluster(manifest: Manifest) -> list[Problem]:
        from tfjob.launch import cluster

        with open_cluster_backend(on, namespace) as backend:
            return cluster.problems(backend, manifest, namespace)

    def ask_this_machine(manifest: Manifest) -> list[Problem]:
        from tfjob.launch import local
        from tfjob.launch.request import Request

        setup = local.set_up(Request(manifest.source, python=python, volumes=volumes))
        return local.problems(manifest, setup, namespace)

    return ask_cluster if on.cluster else ask_this_machine


def _judged(file: str, parameters: tuple[str, ...], judge: Judge) -> tuple[list[Problem], list[str]]:
    """The problems of one file and the names of its jobs; a file that cannot be read is a problem too."""
    from tfjob.api.problems import Problem, in_order
    from tfjob.launch.request import Unreadable, read_manifest

    try:
        _, manifest = read_manifest(file, parameters)
    except Unreadable as error:
        return [error.problem], []
    except OSError as error:
        return [Problem("", error.strerror or str(error), source=file)], []
    problems = list(manifest.problems)
    if not manifest.errors:
        problems += judge(manifest)
    return in_order(problems), [job.metadata.name for job in manifest.jobs]
