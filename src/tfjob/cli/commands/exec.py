"""`tfjob exec`: run a command in a replica, with its files, host names and environment."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tfjob.cli.completion import JOB, REPLICA
from tfjob.cli.context import On, find_job, open_backend, place_options
from tfjob.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Collection

    from tfjob.jobs.backend import Record


class Exec(click.Command):
    """A command that runs another command, whose options go after `--`; without `--`, it starts after the replica."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        own, program = args[:end], tuple(args[end + 1 :])
        try:
            left = super().parse_args(ctx, own)
        except click.NoSuchOption as error:
            if end < len(args):
                raise
            raise click.UsageError(
                f"{error.message} Put -- before the command: tfjob exec JOB [REPLICA] -- COMMAND...", ctx
            ) from None
        ctx.params["command"] += program
        if not ctx.params["command"] and not ctx.resilient_parsing:
            raise click.UsageError("Missing command. Put it after --: tfjob exec JOB [REPLICA] -- COMMAND...", ctx)
        return left


@click.command("exec", cls=Exec)
@click.argument("job", type=JOB)
@click.argument("replica", type=REPLICA, required=False, default="")
@click.option("-c", "--container", default="", metavar="NAME", help="Container to run in; default: the main container.")
@place_options
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
def exec_(job: str, replica: str, container: str, on: On, namespace: str, command: tuple[str, ...]) -> int:
    """Run a command in a replica, for example: tfjob exec mnist worker-0 -- sh.

    Without REPLICA, the command runs in the only running replica. If several are running, the command runs in
    the chief or master, or else in the first worker.

    The command has the files, host names and environment of the replica. The exit code is that of the command.
    """
    replica, _, named = replica.partition("/")
    terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    with open_backend(on, namespace, write=False) as there:
        record = find_job(there, job)
        running = there.running(record)
        if not replica:
            replica = _first(record, running)
        if replica not in running:
            hint = f"Running replicas: {', '.join(sorted(running)) or 'none'}."
            raise NotFound(f"{record.id} has no running replica '{replica}'", hint)
        names = running[replica]
        chosen = container or named or names[0]
        if chosen not in names:
            raise NotFound(f"{replica} has no container '{chosen}'", f"Its containers: {', '.join(names)}.")
        sys.stdout.flush()
        return there.execute(record, replica, chosen, command, tty=terminal)


def _first(record: Record, running: Collection[str]) -> str:
    """Return the running replica to use if none is named; print it if the job has others."""
    from tfjob.jobs.replicas import first_replica, replica_names

    if not running:
        raise NotFound(f"{record.id} has no running replica", f"Its state is {record.state}.")
    chosen = first_replica(record.object, running)
    if len({*replica_names(record.object), *running}) > 1:
        click.echo(f"running in {chosen}", err=True)
    return chosen
