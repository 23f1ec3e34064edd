"""`tfjob status`: show one job in detail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tfjob.cli.completion import JOB
from tfjob.cli.context import On, find_job, job_options, open_backend
from tfjob.cli.output import print_object

if TYPE_CHECKING:
    from tfjob.controller.actions import RecordedEvent
    from tfjob.jobs.backend import Record, Replica


@click.command()
@click.argument("job", type=JOB)
@job_options
def status(job: str, on: On, namespace: str, output: str) -> None:
    """Show one job: its state with the reason, its replicas and its files.

    For replicas that are running on this machine, PID is the main process, for use with `kill` or `py-spy`. The last
    line is the command that kills one of these replicas.
    """
    import msgspec

    from tfjob.jobs import explain
    from tfjob.jobs.output import job_shape, replica_shape

    with open_backend(on, namespace, write=False) as there:
        record = find_job(there, job)
        replicas, storage = there.replicas(record), there.storage(record)
        events = [] if output != "text" or explain.is_well(record) else there.events(record)
    if output != "text":
        shapes = [replica_shape(replica) for replica in replicas]
        full = {"storage": storage, "replicas": shapes, "status": msgspec.to_builtins(record.object.status)}
        print_object("JobStatus", {**job_shape(record), **full}, output)
        return
    warnings = explain.recent_warnings(events, record.status.start_time)
    click.echo(_text(record, storage, replicas, warnings))


def _text(record: Record, storage: str, replicas: list[Replica], events: list[RecordedEvent]) -> str:
    from datetime import UTC, datetime

    from tfjob.jobs import explain
    from tfjob.jobs.report import age, clock, table, took, verdict

    status = record.status
    because = f" ({record.reason})" if record.reason not in ("", record.state) else ""
    message = f": {status.message}" if status.message and not status.failure else ""
    since = status.start_time or record.created
    ago = f"took {took(since, status.completion_time)}" if status.completion_time else f"{age(since)} ago"
    # With parameter servers, each replica restarts alone: show the highest number.
    attempt = max([status.attempt, *(replica.attempts for replica in replicas)])
    lines = [
        f"{click.style(record.id, bold=True)}  {record.state}{because}{message}",
        f"  started    {clock(since)} UTC, {ago}",
        f"  ready      {status.ready or '-'}   restarts {status.restarts}   attempt {attempt}",
        *([f"  files      {record.folder}"] if record.folder else []),
        *([f"  data       {storage}"] if storage else []),
    ]
    if status.failure:
        lines.append(f"  why        {verdict(status.failure, status.reason)}")
    elif status.last_restart:
        cause = status.last_restart.cause
        lines.append(f"  restarted  {clock(status.last_restart.time)} UTC, because {cause.message}")
        lines += [f"  advice     {cause.advice}"] if cause.advice else []
    elif record.note:
        lines.append(f"  why        {record.note}")
    lines += [f"  lost       {line}" for line in explain.lost_output(record, replicas)]
    lines += [*_starts(replicas), *_left_running(record, replicas), *explain.format_events(events, datetime.now(UTC))]
    here = any(replica.pid for replica in replicas)
    titles = ["  REPLICA", "PHASE", "ATTEMPTS", "EXIT", *(["PID"] if here else []), "ADDRESS", "REQUESTS/LIMITS"]
    rows = [
        [
            f"  {replica.name}",
            replica.shown or replica.phase,
            str(replica.attempts),
            "-" if replica.exit_code is None else str(replica.exit_code),
            *([str(replica.pid or "-")] if here else []),
            replica.address or "-",
            _asked(replica.resources),
        ]
        for replica in replicas
    ]
    return "\n".join([*lines, "", table(titles, rows), *_kill_command(record, replicas)])


def _starts(replicas: list[Replica]) -> list[str]:
    names: dict[str, list[str]] = {}
    for replica in replicas:
        if replica.start and replica.could_be_warm:
            names.setdefault(replica.start, []).append(replica.name)
    return [
        f"  start      {how.partition(': ')[0]}: {', '.join(who)}"
        + (f", because {how.partition(': ')[2]}" if ": " in how else "")
        for how, who in names.items()
    ]


def _left_running(record: Record, replicas: list[Replica]) -> list[str]:
    from tfjob.jobs.explain import left_running

    count = left_running(record, replicas)
    if not count:
        return []
    run = "replica is still running" if count == 1 else "replicas are still running"
    command = f"tfjob delete {record.name}{record.options}"
    return [f"  left       {count} {run} (cleanPodPolicy: None); to end {'it' if count == 1 else 'them'}: {command}"]


def _kill_command(record: Record, replicas: list[Replica]) -> list[str]:
    """Return the command that kills a replica on this machine: the last worker, or else the last replica."""
    running = [replica for replica in replicas if replica.pid and replica.phase == "Running"]
    if record.state != "Running" or not running:
        return []
    victim = [*running, *(replica for replica in running if replica.name.startswith("worker-"))][-1]
    return ["", f"To kill {victim.name}: kill -9 {victim.pid}"]


def _asked(resources: dict[str, Any]) -> str:
    def words(part: str) -> str:
        return ",".join(f"{name}={value}" for name, value in (resources.get(part) or {}).items()) or "-"

    return f"{words('requests')}/{words('limits')}" if resources else "-"
