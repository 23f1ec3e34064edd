"""`tfjob exec`: run a command in a replica, with its files, host names and environment."""

from __future__ import annotations

import sys

import click

from tfjob.cli.completion import JOB, REPLICA
from tfjob.cli.context import On, find_job, open_backend, place_options
from tfjob.errors import NotFound


class Exec(click.Command):
    """A command that runs another command, whose options go after `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if "--" in args:
                raise
            raise click.UsageError(
                f"{error.message} Put -- before the command: tfjob exec JOB REPLICA -- COMMAND...", ctx
            ) from None


@click.command("exec", cls=Exec)
@click.argument("job", type=JOB)
@click.argument("replica", type=REPLICA)
@click.option("-c", "--container", default="", metavar="NAME", help="Container to run in; default: the main container.")
@place_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def exec_(job: str, replica: str, container: str, on: On, namespace: str, command: tuple[str, ...]) -> int:
    """Run a command in a replica, for example: tfjob exec mnist worker-0 -- sh.

    The command has the files, host names and environment of the replica. The exit code is that of the command.
    """
    replica, _, named = replica.partition("/")
    terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    with open_backend(on, namespace, write=False) as there:
        record = find_job(there, job)
        running = there.running(record)
        if replica not in running:
            hint = f"Running replicas: {', '.join(sorted(running)) or 'none'}."
            raise NotFound(f"{record.id} has no running replica '{replica}'", hint)
        names = running[replica]
        chosen = container or named or names[0]
        if chosen not in names:
            raise NotFound(f"{replica} has no container '{chosen}'", f"Its containers: {', '.join(names)}.")
        sys.stdout.flush()
        return there.execute(record, replica, chosen, command, tty=terminal)
