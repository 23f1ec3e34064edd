"""`tfjob run` and `tfjob submit`: run a manifest or a script on this machine or on a cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import click

from tfjob.cli import exit_codes
from tfjob.cli.completion import FILE
from tfjob.cli.context import (
    Command,
    On,
    WholeNumber,
    is_quiet,
    namespace_option,
    on_option,
    open_cluster_backend,
    output_option,
    print_outages,
)
from tfjob.cli.output import print_jobs
from tfjob.launch.request import MANIFESTS, Request, ScriptRequest, is_script
from tfjob.launch.target import probe_machine

if TYPE_CHECKING:
    from tfjob.jobs.backend import Record
    from tfjob.launch.local import LocalJobs


class WithArguments(click.Command):
    """A command that runs a program, whose options go after `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        own, program = args[:end], args[end + 1 :]
        words = list(own)  # the parser empties the list
        try:
            left = super().parse_args(ctx, own)
        except click.NoSuchOption as error:
            if end < len(args) or not ("-m" in words or any(map(is_script, words))):
                raise
            unknown = exit_codes.unknown_option(error)
            hint = f"To pass it to the program: tfjob {ctx.info_name} PROGRAM -- {error.option_name} ..."
            raise click.UsageError(f"{unknown} {hint}", ctx) from None
        ctx.params["arguments"] = (*ctx.params.get("arguments", ()), *program)
        files = [one for one in (*ctx.params.get("files", ()), ctx.params.get("file")) if one]
        module, script = ctx.params["module"], next(filter(is_script, files), "")
        if module.startswith("-") or "/" in module or is_script(module):
            raise click.UsageError(f"-m needs the name of a module, such as pkg.train, not {module!r}.", ctx)
        manifest = files[0] if files and files[0].endswith(MANIFESTS) and "-m" in words[words.index(files[0]) :] else ""
        if module and (script or manifest):
            raise click.UsageError(f"-m {module} and {script or manifest} exclude each other: use one of them.", ctx)
        if "--warm" in words and "--cold" in words:
            raise click.UsageError("--warm and --cold exclude each other: use one of them.", ctx)
        if not (files or module or program or "" in words) and not ctx.resilient_parsing:
            hint = "Name a manifest or a script, or use -m MODULE, or write a command after --."
            raise click.UsageError(f"Missing argument 'FILE|SCRIPT'. {hint}", ctx)
        return left


COUNT = WholeNumber(min=0)
SCRIPT_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "-m", "module", default="", metavar="MODULE", help="The program is a Python module, as for `python -m`."
    ),
    click.option("--workers", type=COUNT, metavar="N", help="Number of workers (scripts only, default 1)."),
    click.option("--ps", type=COUNT, metavar="N", help="Number of parameter servers (scripts only)."),
    click.option("--chief", is_flag=True, help="Run a chief in addition to the workers (scripts only)."),
    click.option("--evaluator", type=WholeNumber(0, 1), metavar="N", help="Number of evaluators (scripts only)."),
    click.option("--image", default="", metavar="IMAGE", help="Image to run in (scripts on a cluster only)."),
    click.option("--in-image", is_flag=True, help="Send no files: the image contains the code (on a cluster only)."),
    click.option(
        "--env",
        multiple=True,
        metavar="NAME[=VALUE]",
        help="Set a variable, or pass NAME from this shell (scripts only).",
    ),
    click.option(
        "--env-file",
        multiple=True,
        metavar="FILE",
        help="Set the variables of a file with NAME=VALUE lines (scripts only).",
    ),
)
"""The options that only apply to programs; `check` has them too."""
OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.argument("file", type=FILE, required=False, default="", metavar="[FILE|SCRIPT]"),
    click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGUMENTS...]"),
    *SCRIPT_OPTIONS,
    click.option("-p", "parameters", multiple=True, metavar="KEY=VALUE", help="Replace ${KEY} in the manifest."),
    click.option("--name", default="", metavar="NAME", help="Run the job under another name."),
    click.option("--python", default="", metavar="PATH", help="Interpreter or virtualenv to run in."),
    click.option("--volume", "volumes", multiple=True, metavar="NAME=FOLDER", help="Use FOLDER for the volume NAME."),
    click.option(
        "--level",
        type=click.Choice(["auto", "full", "addresses", "ports"]),
        default=None,
        help="Isolation level of replicas; `tfjob doctor` shows what is available.",
    ),
    click.option("--no-limits", is_flag=True, help="Do not enforce resource limits."),
    click.option(
        "--warm/--cold",
        default=None,
        help="Start all replicas (--warm) or none (--cold) from a process that has already loaded TensorFlow, which is "
        "faster; default: those that import TensorFlow.",
    ),
    click.option(
        "--share-storage",
        is_flag=True,
        help="Use the checkpoints of a job with the same name that was started from another folder.",
    ),
    click.option("--cpu", is_flag=True, help="Train on the CPU even if the job requests GPUs."),
    on_option,
    namespace_option("Namespace for jobs that do not name one."),
    output_option,
)
"""The options that `run` and `submit` share."""


def with_options(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


@click.command(cls=WithArguments)
@with_options(*OPTIONS)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Start nothing; print the processes that would run or, on a cluster, the objects (-o yaml: the manifest).",
)
@click.option("-d", "--detach", is_flag=True, help="Run in the background.")
@click.option("--plain", is_flag=True, help="Print prefixed lines instead of the live view in a terminal.")
def run(on: On, output: str, dry_run: bool, detach: bool, plain: bool, **asked: Any) -> int:
    """Run the jobs of a manifest, or a program, on this machine or on a cluster.

    A program is a Python script, a shell script (.sh), a module (-m), or a command after `--`. tfjob generates a
    manifest for it in memory (to print it: --dry-run -o yaml). All replicas run the program in the current folder. On a
    cluster, tfjob sends them a copy of this folder: the files that git does not ignore, except those that .tfjobignore
    lists or that look like secrets. For a manifest, tfjob sends the manifest's folder instead, if a command runs a file
    of it. With --in-image, tfjob sends nothing.

    Shows the logs of all replicas until the job ends; a terminal also has a live table of replicas. The exit code is 0
    if the job succeeded and 1 if it failed. Ctrl-C stops the job gracefully (`tfjob resume` continues it), and a second
    Ctrl-C kills it. On a cluster, Ctrl-C only detaches: the job keeps running, and the exit code is 130.
    """
    # The other options have the names of the fields of a request.
    script = script_of(asked)
    request = Request(**asked, script=script, target=on)
    mode = "dry-run" if dry_run else "detach" if detach else "plain" if plain else "attach"
    return _run_there(request, mode, output) if on.cluster else _run_here(request, mode, output)


def script_of(asked: dict[str, Any]) -> ScriptRequest:
    """Remove the options for programs from those of a command line, and return them."""
    return ScriptRequest(**{field.name: asked.pop(field.name) for field in fields(ScriptRequest)})


def _run_here(request: Request, mode: str, output: str) -> int:
    probe_machine()
    from tfjob.launch import local

    prepared = local.prepare(request)
    exit_codes.print_warnings(prepared.warnings)
    for note in prepared.notes:
        click.echo(note, err=True)
    if mode == "dry-run":
        from tfjob.cli.terminal.preview import print_processes

        print_processes(prepared, output)
        return exit_codes.SUCCEEDED
    with exit_codes.name_in_use(lambda namespace: "" if namespace == "default" else f" -n {namespace}"):
        prepared = _agreed_storage(prepared)
        if mode != "detach":
            from tfjob.cli.terminal.attach import attach
            from tfjob.launch import drive

            exit_codes.print_warnings(prepared.attached_warnings)
            with drive.attach(prepared) as driven:
                return attach(driven, output, plain=mode == "plain")
        submitted = local.start(prepared)
    for one in () if is_quiet() else submitted:
        for message in one.messages:
            click.echo(f"{one.record.name}: {message}", err=True)
    if output == "text" and not is_quiet():
        for one in submitted:
            if one.is_updated is not None:
                click.echo(f"{one.record.id} {'was updated' if one.is_updated else 'is unchanged'}")
        submitted = [one for one in submitted if one.is_updated is None]
    _print_started([one.record for one in submitted], output)
    return exit_codes.SUCCEEDED


def _agreed_storage(prepared: LocalJobs) -> LocalJobs:
    """Ask whether jobs may use storage of another folder; without a terminal, the submission refuses it."""
    if sys.stdin is None or not sys.stdin.isatty():
        return prepared
    from tfjob.launch import local

    for foreign in local.foreign_storage(prepared):
        if not click.confirm(f"{foreign.message}. Use them?", err=True):
            raise foreign
    return replace(prepared, submissions=[replace(one, shares_storage=True) for one in prepared.submissions])


def _run_there(request: Request, mode: str, output: str) -> int:
    from tfjob.cli.terminal.result import report_creation, report_detached
    from tfjob.launch import cluster

    print_outages()
    prepared = cluster.prepare(request)
    exit_codes.print_warnings(prepared.warnings)
    if mode == "dry-run":
        from tfjob.cli.terminal.preview import print_objects

        print_objects(prepared, output)
        return exit_codes.SUCCEEDED
    if prepared.sent and not is_quiet():
        click.echo(f"sending {prepared.sent} to the cluster", err=True)
    with (
        open_cluster_backend(request.target, request.namespace) as backend,
        exit_codes.name_in_use(backend.options_for),
    ):
        outcome = cluster.submit(backend, prepared)
        report_creation(outcome, backend)
        if mode != "detach" and outcome.records and not outcome.interrupted:
            from tfjob.cli.terminal.attach import attach
            from tfjob.launch.follow import FollowedJobs

            return attach(FollowedJobs(backend, outcome.records), output, plain=mode == "plain")
    if mode != "detach":
        report_detached(outcome.records)
    elif not outcome.unknown:
        _print_started(outcome.records, output)
    return exit_codes.INTERRUPTED if outcome.interrupted else exit_codes.SUCCEEDED


def _print_started(records: Sequence[Record], output: str) -> None:
    from tfjob.cli.terminal.result import next_commands

    if output != "text":
        print_jobs(records, output)
        return
    for record in records:
        click.echo(record.name if is_quiet() else next_commands(record))


@click.command(cls=WithArguments)
@with_options(*OPTIONS)
@click.pass_context
def submit(context: click.Context, /, **options: object) -> int:
    """Run the jobs of a manifest, or a program, in the background (same as `tfjob run --detach`).

    If the manifest contains a Deployment that is already running on this machine, tfjob updates it, as `kubectl apply`
    does.
    """
    code: int = context.invoke(run, dry_run=False, detach=True, plain=False, **options)
    return code
