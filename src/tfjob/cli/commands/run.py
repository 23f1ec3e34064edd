"""`tfjob run` and `tfjob submit`: a manifest or a script becomes processes of this machine, or pods of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from tfjob.cli import exit_codes
from tfjob.cli.completion import FILE
from tfjob.cli.context import (
    Command,
    On,
    is_quiet,
    on_option,
    open_cluster_backend,
    output_option,
    print_outages,
    valid_namespace,
)
from tfjob.launch.request import Request, ScriptRequest, is_script

if TYPE_CHECKING:
    from tfjob.jobs.backend import Record


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
def run(on: On, output: str, dry_run: bool, detach: bool, plain: bool, **asked: Any) -> int:
    """Run the jobs of a manifest, or a Python script, as processes of this machine or on a cluster.

    A script becomes the manifest of a job whose replicas all run it; --dry-run -o yaml prints that. It runs in the
    current folder. On a cluster it travels in a ConfigMap, or is in the image (--in-image).

    Shows the logs of all replicas until the job ends, in a terminal above a live table of them; the exit code is 0 if
    it succeeded and 1 if it failed. Ctrl-C stops it in order (`tfjob resume` continues it), a second Ctrl-C kills it.
    On a cluster Ctrl-C only detaches: the job goes on, and the exit code is 130.
    """
    # The other options are named like the fields of a request.
    script = ScriptRequest(**{field.name: asked.pop(field.name) for field in fields(ScriptRequest)})
    request = Request(**asked, script=script, target=on)
    mode = "dry-run" if dry_run else "detach" if detach else "plain" if plain else "attach"
    return _run_there(request, mode, output) if on.cluster else _run_here(request, mode, output)


def _run_here(request: Request, mode: str, output: str) -> int:
    from tfjob.local.sandbox import capabilities

    capabilities.begin()  # while the rest of the tool is loaded
    from tfjob.launch import local

    prepared = local.prepare(request)
    exit_codes.print_warnings(prepared.warnings)
    for note in prepared.notes:
        click.echo(note, err=True)
    if mode == "dry-run":
        from tfjob.cli.terminal.preview import print_processes

        print_processes(prepared, output)
        return exit_codes.SUCCEEDED
    with exit_codes.name_in_use("end", lambda namespace: "" if namespace == "default" else f" -n {namespace}"):
        if mode != "detach":
            from tfjob.cli.terminal.local_attach import attach

            exit_codes.print_warnings(prepared.attached_warnings)
            return attach(prepared, output, plain=mode == "plain")
        submitted = local.start(prepared)
    for one in () if is_quiet() else submitted:
        for message in one.messages:
            click.echo(f"{one.record.name}: {message}", err=True)
    _print_started([one.record for one in submitted], output)
    return exit_codes.SUCCEEDED


def _run_there(request: Request, mode: str, output: str) -> int:
    from tfjob.cli.terminal.result import report_interruption
    from tfjob.launch import cluster

    print_outages()
    prepared = cluster.prepare(request)
    exit_codes.print_warnings(prepared.warnings)
    if mode == "dry-run":
        from tfjob.cli.terminal.preview import print_objects

        print_objects(prepared, output)
        return exit_codes.SUCCEEDED
    with (
        open_cluster_backend(request.target, request.namespace) as backend,
        exit_codes.name_in_use("remove", backend.options_for),
    ):
        if mode != "detach":
            from tfjob.cli.terminal.cluster_attach import attach

            return attach(backend, prepared, output, plain=mode == "plain")
        outcome = cluster.submit(backend, prepared)
        report_interruption(outcome, backend)
    if not outcome.unknown:
        _print_started(outcome.records, output)
    return exit_codes.INTERRUPTED if outcome.interrupted else exit_codes.SUCCEEDED


def _print_started(records: Sequence[Record], output: str) -> None:
    """Print the jobs that now run in the background."""
    from tfjob.cli.output import print_list
    from tfjob.cli.terminal.result import next_commands
    from tfjob.jobs.output import job_shape

    if output != "text":
        print_list("Job", [job_shape(record) for record in records], output)
        return
    for record in records:
        click.echo(record.name if is_quiet() else next_commands(record))


@click.command(cls=WithArguments)
@_options
@click.pass_context
def submit(context: click.Context, /, **options: object) -> int:
    """Run the jobs of a manifest, or a script, in the background; the same as `run --detach`."""
    code: int = context.invoke(run, dry_run=False, detach=True, plain=False, **options)
    return code
