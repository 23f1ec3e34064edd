"""`tfjob check`: report the problems of manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tfjob.cli.completion import FILE
from tfjob.cli.context import On, is_quiet, namespace_option, output_option, place, print_outages
from tfjob.cli.output import print_list

if TYPE_CHECKING:
    from tfjob.api.problems import Problem
    from tfjob.launch.request import Request


@click.command()
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@click.option("-p", "parameters", multiple=True, metavar="KEY=VALUE", help="Replace ${KEY} in the manifest.")
@click.option(
    "--on",
    default=None,
    metavar="WHERE",
    type=place,
    help="Also check against a target: local (this machine), k8s or k8s:CONTEXT.",
)
@click.option("--python", default="", metavar="PATH", help="Interpreter or virtualenv to run in (--on local only).")
@click.option(
    "--volume",
    "volumes",
    multiple=True,
    metavar="NAME=FOLDER",
    help="Use FOLDER for the volume NAME (--on local).",
)
@namespace_option("Namespace for jobs that do not name one.")
@output_option
def check(files: tuple[str, ...], on: On | None, output: str, **options: Any) -> int:
    """Check manifests and print every problem with its path, line and column. The exit code is 2 if there is an error.

    With --on k8s, the API server validates the job in a dry run, which also checks your permissions, and tfjob checks
    that the Secrets, ConfigMaps and claims of the job exist. Nothing is created.
    """
    import msgspec

    from tfjob.api.problems import errors
    from tfjob.cli import exit_codes
    from tfjob.launch.request import Request

    if on is None and (options["python"] or options["volumes"]):
        raise click.UsageError(f"{'--python' if options['python'] else '--volume'} needs --on local")
    if on is not None and on.cluster:
        print_outages()
    requests = [Request(file, target=on or On(), **options) for file in files]
    found = {request.file: _check(request, is_placed=on is not None) for request in requests}
    everything = [problem for problems, _ in found.values() for problem in problems]
    code = exit_codes.BAD_INPUT if errors(everything) else exit_codes.SUCCEEDED
    if output != "text":
        print_list("Problem", [msgspec.to_builtins(problem) for problem in everything], output)
        return code
    for file, (problems, jobs) in found.items():
        for problem in problems:
            click.echo(str(problem))
        if not errors(problems) and not is_quiet():
            click.echo(f"{file}: ok ({', '.join(jobs) or 'no jobs'})")
    return code


def _check(request: Request, *, is_placed: bool) -> tuple[list[Problem], list[str]]:
    from tfjob.api.problems import Problem
    from tfjob.launch import start
    from tfjob.launch.request import Unreadable

    try:
        return start.check(request, is_placed=is_placed)
    except Unreadable as error:
        return [error.problem], []
    except OSError as error:
        return [Problem("", error.strerror or str(error), source=request.file)], []
