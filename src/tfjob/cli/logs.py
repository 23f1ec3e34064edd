"""`tfjob logs`: what the replicas of a job wrote, also after its end."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from tfjob.cli import outcome
from tfjob.cli.context import find_run, namespace_option, output_option, state
from tfjob.cli.removal import parse_age

if TYPE_CHECKING:
    from tfjob.local.log_view import Line


@click.command()
@click.argument("job")
@click.argument("replica", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends.")
@click.option("--tail", type=int, default=None, metavar="N", help="Only the last N lines of each replica.")
@click.option("--since", default=None, metavar="AGE", help="Only lines not older than this: 30s, 5m, 2h.")
@click.option("-p", "--previous", is_flag=True, help="The attempt before the last.")
@click.option("--timestamps", is_flag=True, help="Begin every line with its time.")
@namespace_option
@output_option
def logs(
    job: str,
    replica: str | None,
    follow: bool,
    tail: int | None,
    since: str | None,
    previous: bool,
    timestamps: bool,
    namespace: str,
    output: str,
) -> None:
    """Show the logs of one replica (worker-0) or of all, merged by time."""
    from tfjob.cli.replica_logs import sources_of
    from tfjob.local.driver import is_settled
    from tfjob.local.log_view import POLL, Follower, read

    after = datetime.now(UTC) - parse_age(since) if since else None
    with state(write=False) as (home, store):
        run = find_run(home, store, job, namespace)
        found = sources_of(run, replica, previous=previous)
        if replica and not found:
            known = (
                ", ".join(sorted({source.replica for source in sources_of(run, None, previous=False)})) or "none yet"
            )
            raise outcome.Stop(outcome.NOT_FOUND, f"{run.id} has no logs of {replica}; there are: {known}")
        width = 0 if replica else max((len(source.replica) for source in found), default=0)
        if not follow:
            for line in read(found, tail=tail, since=after, previous=False):
                _print(line, width, output, timestamps)
            return
        follower = Follower(found, tail=tail, since=after)
        seen = {source.folder for source in found}
        while True:
            over = is_settled(store, run.job.metadata.uid)
            for source in sources_of(run, replica, previous=False):
                if source.folder not in seen:
                    seen.add(source.folder)
                    follower.add(source)
            for line in follower.poll():
                _print(line, width, output, timestamps)
            if over:
                break
            time.sleep(POLL)
        for line in follower.finish():
            _print(line, width, output, timestamps)


def _print(line: Line, width: int, output: str, timestamps: bool) -> None:
    if output == "json":
        import msgspec

        shape = {"time": line.time, "replica": line.replica, "text": line.text, "notice": line.notice}
        click.echo(msgspec.json.encode(shape).decode())
        return
    prefix = f"{line.replica:<{width}} | " if width else ""
    stamp = f"{line.time:%Y-%m-%dT%H:%M:%S.%fZ} " if timestamps else ""
    click.echo(f"{prefix}{stamp}{line.text}")
