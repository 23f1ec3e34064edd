"""`tfjob check`: what is wrong with a manifest, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tfjob.cli.context import output_option

if TYPE_CHECKING:
    from tfjob.api.problems import Problem


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("-p", "parameters", multiple=True, metavar="KEY=VALUE", help="Replace ${KEY} in the manifest.")
@click.option("--on", type=click.Choice(["local"]), default=None, help="Also what this machine refuses or needs.")
@click.option("--python", default="", metavar="PATH", help="With --on local: the interpreter or virtualenv to run in.")
@click.option(
    "--volume", "volumes", multiple=True, metavar="NAME=FOLDER", help="With --on local: a folder for a volume."
)
@output_option
def check(
    files: tuple[str, ...],
    parameters: tuple[str, ...],
    on: str | None,
    python: str,
    volumes: tuple[str, ...],
    output: str,
) -> int:
    """Judge manifests: every error with its path, line and column. The exit code is 2 if there is one."""
    import msgspec

    from tfjob.api.problems import errors
    from tfjob.cli import outcome

    found = {file: _judged(file, parameters, python, volumes, local=on == "local") for file in files}
    faulty = any(errors(problems) for problems, _ in found.values())
    if output == "json":
        from tfjob.cli.shapes import print_list

        print_list("Problem", [msgspec.to_builtins(problem) for problems, _ in found.values() for problem in problems])
        return outcome.BAD_INPUT if faulty else outcome.SUCCEEDED
    for file, (problems, jobs) in found.items():
        for problem in problems:
            click.echo(str(problem))
        if not errors(problems):
            click.echo(f"{file}: ok ({', '.join(jobs) or 'no job'})")
    return outcome.BAD_INPUT if faulty else outcome.SUCCEEDED


def _judged(
    file: str, parameters: tuple[str, ...], python: str, volumes: tuple[str, ...], *, local: bool
) -> tuple[list[Problem], list[str]]:
    """The problems of one file and the names of its jobs; a file that cannot be read is a problem too."""
    from tfjob.api.problems import Problem, in_order
    from tfjob.cli import manifest_file

    try:
        _, manifest = manifest_file.read(file, parameters)
    except IsADirectoryError:
        return [Problem("", "is a folder", "name a manifest in it", source=file)], []
    except OSError as error:
        return [Problem("", error.strerror or str(error), source=file)], []
    problems = list(manifest.problems)
    if local and not manifest.errors:
        from tfjob.cli import local_launch
        from tfjob.cli.starting import Request

        options, _ = local_launch.options_of(Request(file, parameters, python=python, volumes=volumes))
        problems += local_launch.local_problems(manifest, options)
    return in_order(problems), [job.metadata.name for job in manifest.jobs]
