"""`tfjob run` and `tfjob submit`: a manifest becomes processes of this machine."""

from __future__ import annotations

import click

from tfjob.cli.context import Command, output_option, valid_namespace


def _options(command: Command) -> Command:
    for option in reversed(
        (
            click.argument("file", metavar="FILE"),
            click.option(
                "-p", "parameters", multiple=True, metavar="KEY=VALUE", help="Replace ${KEY} in the manifest."
            ),
            click.option("--name", default="", metavar="NAME", help="Run the job under another name."),
            click.option("--python", default="", metavar="PATH", help="Interpreter or virtualenv to run in."),
            click.option(
                "--volume", "volumes", multiple=True, metavar="NAME=FOLDER", help="Use a folder for a volume."
            ),
            click.option(
                "--level",
                type=click.Choice(["auto", "full", "addresses", "ports"]),
                default=None,
                help="How far replicas are separated; `tfjob doctor` shows what is possible.",
            ),
            click.option("--no-limits", is_flag=True, help="Do not enforce resource limits."),
            click.option(
                "-n",
                "--namespace",
                default="",
                metavar="NAME",
                callback=valid_namespace,
                help="Namespace for a job that names none.",
            ),
            output_option,
        )
    ):
        command = option(command)
    return command


@click.command()
@_options
@click.option("--dry-run", is_flag=True, help="Print processes, TF_CONFIG, mounts and ports; start nothing.")
@click.option("-d", "--detach", is_flag=True, help="Go on in the background.")
def run(
    file: str,
    parameters: tuple[str, ...],
    name: str,
    python: str,
    volumes: tuple[str, ...],
    level: str | None,
    no_limits: bool,
    namespace: str,
    output: str,
    dry_run: bool,
    detach: bool,
) -> int:
    """Run the jobs of a manifest as processes of this machine.

    Shows the logs of all replicas until the job ends; the exit code is 0 if it succeeded and 1 if it failed. Ctrl-C
    stops it in order (`tfjob resume` continues it), a second Ctrl-C kills it.
    """
    from tfjob.cli import starting

    request = starting.Request(file, parameters, name, namespace, python, volumes, level, no_limits)
    submissions = starting.submissions(request)
    if dry_run:
        return starting.show(submissions, output)
    if detach:
        return starting.detach(submissions, output)
    from tfjob.cli.attached import attach

    return attach(submissions, output)


@click.command()
@_options
@click.pass_context
def submit(context: click.Context, /, **options: object) -> int:
    """Run the jobs of a manifest in the background; the same as `run --detach`."""
    code: int = context.invoke(run, dry_run=False, detach=True, **options)
    return code
