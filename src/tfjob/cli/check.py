"""`tfjob check`: what is wrong with a manifest, and where."""

from __future__ import annotations

import click

from tfjob.cli.context import output_option


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

    from tfjob.api.problems import in_order
    from tfjob.cli import outcome, starting
    from tfjob.cli.shapes import print_list

    found = []
    for file in files:
        request = starting.Request(file, parameters, "", "default", python, volumes, None, no_limits=False)
        _, manifest = starting.read(file, parameters)
        problems = list(manifest.problems)
        if on == "local" and not manifest.errors:
            options, _ = starting.options_of(request)
            problems += starting.local_problems(manifest, options)
        found.append((file, manifest, in_order(problems)))
    errors = sum(not problem.warning for _, _, problems in found for problem in problems)
    if output == "json":
        print_list("Problem", [msgspec.to_builtins(problem) for _, _, problems in found for problem in problems])
        return outcome.BAD_INPUT if errors else outcome.SUCCEEDED
    for file, manifest, problems in found:
        for problem in problems:
            click.echo(str(problem))
        if not any(not problem.warning for problem in problems):
            jobs = ", ".join(job.metadata.name for job in manifest.jobs) or "no job"
            click.echo(f"{file}: ok ({jobs})")
    return outcome.BAD_INPUT if errors else outcome.SUCCEEDED
