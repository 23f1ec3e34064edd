"""`tfjob run` and `tfjob submit`: a manifest or a script becomes processes of this machine, or pods of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tfjob.cli import exit_codes
from tfjob.cli.completion import FILE
from tfjob.cli.context import Command, On, is_quiet, on_option, open_cluster_backend, output_option, valid_namespace
from tfjob.launch.script import ScriptRequest, is_script

if TYPE_CHECKING:
    from tfjob.launch.cluster import ClusterLaunch
    from tfjob.launch.local import LocalLaunch
    from tfjob.launch.starting import Launch


class WithArguments(click.Command):
    """A command whose script may have options of its own: they belong after `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Adds how to write it to the error for an option that is not ours."""
        words = list(args)  # the parser takes them away
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if "--" in words or not any(map(is_script, words)):
                raise
            hint = f"Options of the script go after --: tfjob {ctx.info_name} SCRIPT -- {error.option_name} ..."
            raise click.UsageError(f"No such option {error.option_name}. {hint}", ctx) from None


def script_options(command: Command) -> Command:
    """Adds the options that only a script has."""
    count = click.IntRange(min=0)
    several: tuple[Callable[[Any], Any], ...] = (
        click.option("--workers", type=count, metavar="N", help="Of a script: workers; 1 if nothing else is said."),
        click.option("--ps", type=count, metavar="N", help="Of a script: parameter servers."),
        click.option("--chief", is_flag=True, help="Of a script: with a chief, which counts beside the workers."),
        click.option("--evaluator", type=count, metavar="N", help="Of a script: 1 for an evaluator."),
        click.option("--image", default="", metavar="IMAGE", help="Of a script: the image to run it in on a cluster."),
        click.option("--in-image", is_flag=True, help="Of a script: it is in the image, at this path."),
    )
    for option in reversed(several):
        command = option(command)
    return command


def _options(command: Command) -> Command:
    for option in reversed(
        (
            click.argument("file", type=FILE, metavar="FILE|SCRIPT"),
            click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGUMENTS...]"),
            script_options,
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
                "--warm/--cold",
                default=None,
                help="Fork replicas that import TensorFlow from a process that has done so; with --warm others too.",
            ),
            click.option("--cpu", is_flag=True, help="Train on the CPU, whatever GPUs the job asks for."),
            on_option,
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


@click.command(cls=WithArguments)
@_options
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print processes, TF_CONFIG, mounts and ports; on a cluster all objects; with -o yaml the manifest.",
)
@click.option("-d", "--detach", is_flag=True, help="Go on in the background.")
@click.option("--plain", is_flag=True, help="Show prefixed lines in a terminal too, no live view.")
def run(
    file: str,
    arguments: tuple[str, ...],
    workers: int | None,
    ps: int | None,
    chief: bool,
    evaluator: int | None,
    image: str,
    in_image: bool,
    parameters: tuple[str, ...],
    name: str,
    python: str,
    volumes: tuple[str, ...],
    level: str | None,
    no_limits: bool,
    cpu: bool,
    warm: bool | None,
    on: On,
    namespace: str,
    output: str,
    dry_run: bool,
    detach: bool,
    plain: bool,
) -> int:
    """Run the jobs of a manifest, or a Python script, as processes of this machine or on a cluster.

    A script becomes the manifest of a job whose replicas all run it; --dry-run -o yaml prints that. It runs in the
    current folder. On a cluster it travels in a ConfigMap, or is in the image (--in-image).

    Shows the logs of all replicas until the job ends, in a terminal above a live table of them; the exit code is 0 if
    it succeeded and 1 if it failed. Ctrl-C stops it in order (`tfjob resume` continues it), a second Ctrl-C kills it.
    On a cluster Ctrl-C only detaches: the job goes on, and the exit code is 130.
    """
    if not on.cluster:
        from tfjob.local.sandbox import probe

        probe.begin()  # while the rest of the tool is loaded
    from tfjob.launch.starting import Request

    script = ScriptRequest(workers, ps, chief, evaluator, image, in_image, arguments)
    request = Request(file, parameters, name, namespace, python, volumes, level, no_limits, cpu, script, warm)
    if on.cluster:
        from tfjob.launch.cluster import ClusterLaunch

        there = ClusterLaunch(on.context, request, partial(open_cluster_backend, on))
        if dry_run or detach:
            return _start(there, output, dry_run=dry_run)
        return _attach_there(there, output, plain=plain)
    from tfjob.launch.local import LocalLaunch

    here = LocalLaunch(request)
    return _start(here, output, dry_run=dry_run) if dry_run or detach else _attach_here(here, output, plain=plain)


def _start(jobs: Launch, output: str, *, dry_run: bool) -> int:
    """Shows what would start, or starts it in the background."""
    if not dry_run:
        return exit_codes.INTERRUPTED if jobs.detach(output, quiet=is_quiet()) else exit_codes.SUCCEEDED
    if output == "yaml":
        click.echo(jobs.written(), nl=False)
    else:
        jobs.show(output)
    return exit_codes.SUCCEEDED


def _attach_here(jobs: LocalLaunch, output: str, *, plain: bool) -> int:
    from tfjob.cli.terminal.local_attach import attach

    jobs.tell_attached()
    return attach(jobs.submissions, output, plain=plain)


def _attach_there(jobs: ClusterLaunch, output: str, *, plain: bool) -> int:
    from tfjob.cli.terminal.cluster_attach import attach

    with jobs.open_backend() as backend:
        return attach(backend, jobs.submission, output, plain=plain)


@click.command(cls=WithArguments)
@_options
@click.pass_context
def submit(context: click.Context, /, **options: object) -> int:
    """Run the jobs of a manifest, or a script, in the background; the same as `run --detach`."""
    code: int = context.invoke(run, dry_run=False, detach=True, plain=False, **options)
    return code
