"""`tfjob check`: report the problems of manifests and programs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tfjob.cli.commands.run import SCRIPT_OPTIONS, WithArguments, script_of, with_options
from tfjob.cli.completion import FILE
from tfjob.cli.context import On, is_quiet, namespace_option, output_option, place, print_outages
from tfjob.cli.output import print_list
from tfjob.launch.request import Request, ScriptRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tfjob.api.problems import Problem


@click.command(cls=WithArguments)
@click.argument("files", nargs=-1, type=FILE, metavar="[FILE|SCRIPT]... [-- ARGUMENTS...]")
@with_options(*SCRIPT_OPTIONS)
@click.option("-p", "parameters", multiple=True, metavar="KEY=VALUE", help="Replace ${KEY} in the manifest.")
@click.option(
    "--on",
    default=None,
    metavar="WHERE",
    type=place,
    help="Also check against a target: local (this machine; default for programs), k8s or k8s:CONTEXT.",
)
@click.option("--python", default="", metavar="PATH", help="Interpreter or virtualenv to run in (this machine only).")
@click.option(
    "--volume",
    "volumes",
    multiple=True,
    metavar="NAME=FOLDER",
    help="Use FOLDER for the volume NAME (this machine only).",
)
@namespace_option("Namespace for jobs that do not name one.")
@output_option
def check(files: tuple[str, ...], on: On | None, output: str, **options: Any) -> int:
    """Check manifests and programs: print every problem with its line and column.

    The exit code is 2 if there is an error, and 0 if there are only warnings.

    tfjob reads a Python program without running it. It checks the syntax, whether the interpreter of the replicas has
    the modules that the program imports, and whether the program's strategy fits the replicas that --workers, --ps,
    --chief and --evaluator request.

    With --on k8s, the API server validates the job in a dry run, which also checks your permissions, and tfjob checks
    that the Secrets, ConfigMaps and claims of the job exist. Nothing is created. Imports are not checked, because the
    image has its own interpreter.
    """
    import msgspec

    from tfjob.api.problems import errors
    from tfjob.cli import exit_codes

    requests = list(_requests(files, script_of(options), {**options, "target": on or On()}))
    if on is None and (options["python"] or options["volumes"]) and not any(one.is_program for one in requests):
        raise click.UsageError(f"{'--python' if options['python'] else '--volume'} needs --on local")
    if on is not None and on.cluster:
        print_outages()
    found = {request.program: _check(request, is_placed=on is not None) for request in requests}
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


def _requests(files: Sequence[str], script: ScriptRequest, options: dict[str, Any]) -> Iterator[Request]:
    """Yield a request for each file; as with `run`, files after `-m` are arguments of the module."""
    if options["target"].cluster and not script.image:
        from tfjob.api.manifest.script import IMAGE

        of_program = replace(script, image=IMAGE)
    else:
        of_program = script
    if script.module or not files:
        arguments = (*files[1:], *script.arguments)
        yield Request(files[0] if files else "", script=replace(of_program, arguments=arguments), **options)
        return
    for file in files:
        request = Request(file, script=script, **options)
        yield replace(request, script=of_program) if request.is_program else request


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
