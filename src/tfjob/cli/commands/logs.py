"""`tfjob logs`: print the logs of a job, also after its end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from tfjob.cli.completion import JOB, REPLICA
from tfjob.cli.context import On, WholeNumber, find_job, job_options, open_backend, time_span
from tfjob.cli.output import print_object
from tfjob.errors import NotFound

if TYPE_CHECKING:
    from tfjob.jobs.backend import Line


@click.command()
@click.argument("job", type=JOB)
@click.argument("replica", required=False, type=REPLICA)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines until the job ends.")
@click.option("--tail", type=WholeNumber(min=0), metavar="N", help="Print only the last N lines per replica.")
@click.option("--since", type=time_span, metavar="AGE", help="Print only lines newer than this, such as 30s, 5m or 2h.")
@click.option("-p", "--previous", is_flag=True, help="Print the logs of the previous attempt.")
@click.option("--timestamps", is_flag=True, help="Start every line with its time.")
@job_options
def logs(
    job: str,
    replica: str | None,
    follow: bool,
    tail: int | None,
    since: timedelta | None,
    previous: bool,
    timestamps: bool,
    on: On,
    namespace: str,
    output: str,
) -> None:
    """Show the logs of all replicas, of one replica (worker-0) or of one container (worker-0/sidecar).

    Lines of several replicas are in order of time.

    With -o json or -o yaml, every line becomes an object.
    """
    from tfjob.jobs.backend import LogQuery
    from tfjob.jobs.replicas import replica_names, usual_labels

    if follow and previous:
        raise click.UsageError("--previous cannot be combined with --follow: the previous attempt has ended.")
    after = datetime.now(UTC) - since if since is not None else None
    with open_backend(on, namespace, write=False) as there:
        record = find_job(there, job)
        names = list(dict.fromkeys([*replica_names(record.object), *there.log_labels(record)]))
        labels = names if replica is None else there.log_labels(record, replica)
        replicas = {name.partition("/")[0] for name in names}
        if replica and not labels and replica not in {*names, *replicas}:
            name, _, container = replica.partition("/")
            if name in replicas:
                own = [one for one in names if one.partition("/")[0] == name]
                raise NotFound(f"{name} has no container '{container}'", f"Available logs: {', '.join(own)}.")
            raise NotFound(f"{record.id} has no replica '{name}'", f"There are logs of {', '.join(names)}.")
        shown = usual_labels(labels) or labels
        width = max(map(len, shown)) if len(shown) > 1 or (shown and replica is None) else 0
        last: Line | None = None
        for lines in there.logs(record, LogQuery(replica, tail, after, previous, follow)):
            for line in lines:
                # If only one container is shown, the pieces of a long line arrive one after the other.
                begun = last is not None and last.more and not width
                _print(line, width, output, timestamps, begun=begun)
                last = line
            if follow:
                there.ensure_driven([record])
        if last is None and not follow:
            what = "a previous attempt of " if previous else ""
            click.echo(f"no logs of {what}{replica or record.id}", err=True)


def _print(line: Line, width: int, output: str, timestamps: bool, *, begun: bool) -> None:
    if output != "text":
        print_object("LogLine", line._asdict(), output, is_line=True)
        return
    prefix = f"{line.replica:<{width}} | " if width else ""
    stamp = f"{line.time:%Y-%m-%dT%H:%M:%S.%fZ} " if timestamps and not begun else ""
    click.echo(f"{prefix}{stamp}{line.text}", nl=bool(width) or not line.more)
