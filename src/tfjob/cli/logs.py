"""`tfjob logs`: what the replicas of a job wrote, also after its end."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from heapq import merge
from typing import TYPE_CHECKING

import click

from tfjob.cli import outcome
from tfjob.cli.context import find_run, keep_going, namespace_option, output_option, state
from tfjob.cli.durations import time_span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tfjob.local.home import Home
    from tfjob.local.log_view import Line
    from tfjob.local.store import Run, Store

LOOK_SECONDS = 0.5
"""How often new attempts are looked for, and whether somebody drives the job."""


@click.command()
@click.argument("job")
@click.argument("replica", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines of each replica.")
@click.option("--since", callback=time_span, metavar="AGE", help="Only lines not older than this: 30s, 5m, 2h.")
@click.option("-p", "--previous", is_flag=True, help="The attempt before the last.")
@click.option("--timestamps", is_flag=True, help="Begin every line with its time.")
@namespace_option
@output_option
def logs(
    job: str,
    replica: str | None,
    follow: bool,
    tail: int | None,
    since: timedelta | None,
    previous: bool,
    timestamps: bool,
    namespace: str,
    output: str,
) -> None:
    """Show the logs of one replica (worker-0), of one of its containers (worker-0/sidecar), or of all, by time.

    With -o json every line is one object.
    """
    from tfjob.cli.replica_logs import replica_names

    if follow and previous:
        raise click.UsageError("--previous is over: it cannot be followed; leave out -f.")
    after = datetime.now(UTC) - since if since is not None else None
    with state(write=False) as (home, store):
        run = find_run(home, store, job, namespace)
        names = replica_names(run)
        _refuse_unknown(run, replica, names)
        if follow:
            found: Iterable[Line] = _followed(home, store, run, replica, tail, after)
        else:
            found = _kept(run, replica, tail, after, previous=previous)
        width = _prefix_width(run, replica, names)
        last: Line | None = None
        for line in found:
            # Of one container, a long line comes in pieces that follow each other.
            begun = last is not None and last.more and not width
            _print(line, width, output, timestamps, begun=begun)
            last = line
        if last is None and not follow:
            what = "an earlier attempt of " if previous else ""
            click.echo(f"no logs of {what}{replica or run.id}", err=True)


def _kept(run: Run, replica: str | None, tail: int | None, after: datetime | None, *, previous: bool) -> Iterable[Line]:
    from tfjob.cli.replica_logs import earlier_sources, sources_of
    from tfjob.local.log_view import read

    if not previous:
        return read(sources_of(run, replica), tail=tail, since=after)
    earlier = earlier_sources(run, replica)
    both = (
        read([one.source for one in earlier if one.in_place is way], tail=tail, since=after, previous=way)
        for way in (True, False)
    )
    return merge(*both, key=lambda line: line.time)


def _followed(
    home: Home, store: Store, run: Run, replica: str | None, tail: int | None, after: datetime | None
) -> Iterator[Line]:
    from tfjob.cli.replica_logs import sources_of
    from tfjob.local.driving import is_settled
    from tfjob.local.log_view import POLL, Follower

    uid = run.job.metadata.uid
    with Follower(sources_of(run, replica), tail=tail, since=after) as follower:
        next_look = 0.0
        while True:
            over = is_settled(store, uid)
            if over or time.monotonic() >= next_look:
                next_look = time.monotonic() + LOOK_SECONDS
                for source in sources_of(run, replica):
                    follower.add(source)
                present = store.run(uid)
                if present is not None:
                    keep_going(home, store, present)
            yield from follower.poll()
            if over:
                break
            time.sleep(POLL)
        yield from follower.finish()


def _prefix_width(run: Run, replica: str | None, names: list[str]) -> int:
    """How much room the replicas' names need; none when all lines are of one container."""
    from tfjob.cli.replica_logs import sources_of

    if replica is not None:
        names = [source.replica for source in sources_of(run, replica)]
    return max(map(len, names)) if len(names) > 1 or replica is None else 0


def _refuse_unknown(run: Run, replica: str | None, names: list[str]) -> None:
    from tfjob.cli.replica_logs import sources_of

    if replica is None or replica in names or sources_of(run, replica):
        return
    if replica in {name.partition("/")[0] for name in names}:
        return
    raise outcome.Stop(outcome.NOT_FOUND, f"{run.id} has no replica {replica}", f"It has {', '.join(names)}.")


def _print(line: Line, width: int, output: str, timestamps: bool, *, begun: bool) -> None:
    if output == "json":
        import msgspec

        from tfjob.cli.shapes import log_line_shape

        click.echo(msgspec.json.encode(log_line_shape(line)).decode())
        return
    prefix = f"{line.replica:<{width}} | " if width else ""
    stamp = f"{line.time:%Y-%m-%dT%H:%M:%S.%fZ} " if timestamps and not begun else ""
    click.echo(f"{prefix}{stamp}{line.text}", nl=bool(width) or not line.more)
