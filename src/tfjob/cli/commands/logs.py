"""`tfjob logs`: print the logs of jobs, also after their end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from tfjob.cli.completion import JOB_OR_REPLICA
from tfjob.cli.context import On, WholeNumber, job_options, open_backend, time_span
from tfjob.cli.output import print_object
from tfjob.cli.selection import jobs_argument, names_several, select_jobs
from tfjob.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tfjob.jobs.backend import Line, Record
    from tfjob.jobs.sync_backend import SyncBackend


@click.command()
@jobs_argument("Show the logs of all jobs of the namespace.", "JOB... [REPLICA]", JOB_OR_REPLICA)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines until the jobs end.")
@click.option("--tail", type=WholeNumber(min=0), metavar="N", help="Print only the last N lines per replica.")
@click.option("--since", type=time_span, metavar="AGE", help="Print only lines newer than this, such as 30s, 5m or 2h.")
@click.option("-p", "--previous", is_flag=True, help="Print the logs of the attempt before the last restart.")
@click.option("--timestamps", is_flag=True, help="Start every line with its time.")
@job_options
def logs(
    jobs: tuple[str, ...],
    every: bool,
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

    JOB is a name, a unique prefix, or a quoted pattern of names ('mnist-*'). If the last
    argument is a replica of these jobs, only its logs are shown. Lines of several replicas are in order of time. If
    there are several jobs, every line begins with JOB/REPLICA.

    With -o json or -o yaml, every line becomes an object.
    """
    from tfjob.jobs.backend import LogQuery
    from tfjob.jobs.logs import is_expected

    if follow and previous:
        raise click.UsageError("--previous cannot be combined with --follow: the previous attempt has ended.")
    after = datetime.now(UTC) - since if since is not None else None
    with open_backend(on, namespace, write=False) as there:
        chosen, replica = _select(there, jobs, every=every)
        is_several = names_several(jobs[:-1] if replica and not every else jobs) or every
        keyed = _keyed(chosen) if is_several else {"": chosen[0]}
        labels = [key + label for key, record in keyed.items() for label in _labels(there, record, replica)]
        shown = [*filter(is_expected, labels)] or labels  # a container without lines must not cause prefixes
        width = max(map(len, shown), default=0) if is_several or len(shown) > 1 or replica is None else 0
        printer = _Printer(keyed, width, output, timestamps=timestamps)
        for lines in there.merged_logs(keyed, LogQuery(replica, tail, after, previous, follow)):
            for line in lines:
                printer.print(line)
            if follow:
                there.ensure_driven(chosen)
        for key, record in {} if follow else keyed.items():
            if key not in printer.seen:
                source = key + replica if replica else record.id
                what = "lines that are new enough in the logs" if after else "logs"
                whose = f"a previous attempt of {source}" if previous else source
                click.echo(f"no {what} of {whose}", err=True)
    if not chosen:
        click.echo(f"there are no jobs in namespace '{there.namespace}'", err=True)


def _select(there: SyncBackend[Any], names: Sequence[str], *, every: bool) -> tuple[list[Record], str | None]:
    """Return the jobs, and the replica if the last name is one of theirs rather than another job."""
    if every:
        found, rest = select_jobs(there, names[1:], every=True), names[:1]
    else:
        found, rest = select_jobs(there, names[:1] if len(names) < 2 else names[:-1], every=False), names[1:][-1:]
    if not rest:
        return found, None
    (last,) = rest
    if any(_has_replica(there, record, last) for record in found):
        return found, last
    try:
        more = [] if every else select_jobs(there, [last], every=False)
    except NotFound:
        if len(found) > 1 and "/" not in last:
            raise
        more = []
    if not more:
        raise _no_replica(there, found, last)
    return list({record.uid: record for record in [*found, *more]}.values()), None


def _names(there: SyncBackend[Any], record: Record) -> list[str]:
    """Return the labels of all logs that a job has or will have."""
    from tfjob.jobs.replicas import replica_names

    return list(dict.fromkeys([*replica_names(record.object), *there.log_labels(record)]))


def _labels(there: SyncBackend[Any], record: Record, replica: str | None) -> list[str]:
    return _names(there, record) if replica is None else there.log_labels(record, replica)


def _has_replica(there: SyncBackend[Any], record: Record, replica: str) -> bool:
    names = _names(there, record)
    known = {*names, *(name.partition("/")[0] for name in names)}
    return replica in known or bool(there.log_labels(record, replica))


def _no_replica(there: SyncBackend[Any], records: Sequence[Record], replica: str) -> NotFound:
    names = list(dict.fromkeys(label for record in records for label in _names(there, record)))
    name, _, container = replica.partition("/")
    if name in {label.partition("/")[0] for label in names}:
        own = [one for one in names if one.partition("/")[0] == name]
        return NotFound(f"{name} has no container '{container}'", f"Available logs: {', '.join(own)}.")
    text = f"{records[0].id} has no replica '{name}'" if len(records) == 1 else f"no job has a replica '{name}'"
    return NotFound(text, f"There are logs of {', '.join(names) or 'no replica'}.")


def _keyed(records: Sequence[Record]) -> dict[str, Record]:
    """Return the jobs by what precedes their replicas: the name, or the id if two runs have the same name."""
    names = [record.name for record in records]
    return {f"{one.name if names.count(one.name) == 1 else one.id}/": one for one in records}


class _Printer:
    """Prints lines, with a prefix if there is a width; `seen` are the keys of the jobs that had lines."""

    def __init__(self, keyed: Mapping[str, Record], width: int, output: str, *, timestamps: bool) -> None:
        self.seen: set[str] = set()
        self._keyed = keyed
        self._keys: dict[str, str] = {}
        self._width = width
        self._output = output
        self._timestamps = timestamps
        self._last: Line | None = None

    def print(self, line: Line) -> None:
        if line.replica not in self._keys:
            self._keys[line.replica] = next(key for key in self._keyed if line.replica.startswith(key))
        key = self._keys[line.replica]
        self.seen.add(key)
        if self._output != "text":
            fields = {**line._asdict(), "replica": line.replica.removeprefix(key)}
            print_object("LogLine", {"job": self._keyed[key].id, **fields}, self._output, is_line=True)
            return
        # If only one container is shown, the pieces of a long line arrive one after the other.
        is_begun = self._last is not None and self._last.more and not self._width
        self._last = line
        prefix = f"{line.replica:<{self._width}} | " if self._width else ""
        stamp = f"{line.time:%Y-%m-%dT%H:%M:%S.%fZ} " if self._timestamps and not is_begun else ""
        click.echo(f"{prefix}{stamp}{line.text}", nl=bool(self._width) or not line.more)
