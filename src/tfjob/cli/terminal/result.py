"""The end of a run: its last lines, its exit code, and the commands to type next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tfjob.cli import exit_codes
from tfjob.cli.context import is_quiet
from tfjob.cli.examples import listed
from tfjob.cli.output import print_jobs
from tfjob.jobs.backend import Record
from tfjob.jobs.explain import lost_output
from tfjob.jobs.report import took, verdict
from tfjob.jobs.sync_backend import SyncBackend

if TYPE_CHECKING:
    from tfjob.kube.jobs.backend import SyncKubeBackend
    from tfjob.launch.cluster import Outcome


def report_result(
    there: SyncBackend[Any],
    started: Sequence[str],
    records: Sequence[Record],
    output: str,
    *,
    width: int | None = None,
) -> int:
    """Print the result of an attached run and return its exit code; `started` are the names of its jobs.

    With the `width` of a terminal, also print where the files are and what to type next.
    """
    is_text = output == "text"
    if not is_text:
        print_jobs(records, output)
    for record in records:
        if is_text:
            click.echo(ending(record))
        for line in () if there.shared else lost_output(record, there.replicas(record)):
            click.secho(f"  {line}" if is_text else line, fg="yellow", err=not is_text)
    if is_text:
        for name in started:
            if name not in {record.name for record in records}:
                click.echo(f"{name} was deleted")
        if width is not None:
            for record in records:
                click.echo(guidance(record, there.storage(record), width))
    if not all(record.is_finished for record in records):
        return exit_codes.INTERRUPTED
    succeeded = all(record.state == "Succeeded" for record in records) and len(records) == len(started)
    return exit_codes.SUCCEEDED if succeeded else exit_codes.FAILED


def report_creation(outcome: Outcome, backend: SyncKubeBackend) -> None:
    for name in () if is_quiet() else outcome.servers:
        command = f"tfjob port-forward deployment/{name} PORT{backend.options}"
        click.echo(f"deployment {name} was created on the cluster. To connect to it: {command}", err=True)
    for manifest in outcome.missing:
        click.echo(f"{manifest['metadata']['name']} was not created", err=True)
    for manifest in outcome.unknown:
        name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
        command = f"tfjob status {name}{backend.options_for(namespace)}"
        click.echo(f"{name} may have been created. To check: {command}", err=True)


def report_detached(records: list[Record]) -> None:
    for record in records:
        name, options = record.name, record.options
        commands = f"To stop it: tfjob stop {name}{options}; to see it again: tfjob attach {name}{options}"
        click.echo(f"{name} is still running. {commands}", err=True)


def ending(record: Record) -> str:
    status, name = record.status, record.name
    time = took(record.created, status.completion_time)
    curves = f"\n  to show its curves: {_show_curves(record)}" if record.has_tensorboard else ""
    if status.state == "Succeeded":
        restarts = f", {status.restarts} restart{'s' if status.restarts > 1 else ''}" if status.restarts else ""
        return click.style(f"{name} succeeded", fg="green") + f" in {time}{restarts}: {status.message}{curves}"
    if status.state == "Failed":
        told = ": ".join(filter(None, (status.reason, status.message)))
        why = verdict(status.failure, status.reason) if status.failure else told or "no reason was reported"
        return click.style(f"{name} failed", fg="red") + f" after {time}: {why}{curves}"
    because = f" ({record.reason})" if record.reason not in ("", record.state) else ""
    return f"{name} is {record.state}{because}. To continue it: tfjob resume {name}{record.options}"


def _show_curves(record: Record) -> str:
    return f"tfjob tensorboard {record.name}{record.options}"


def next_commands(record: Record) -> str:
    name = record.name
    commands = {
        f"tfjob logs {name} -f{record.options}": "follow its logs",
        f"tfjob status {name}{record.options}": "show its state",
        **({} if record.is_server else {f"tfjob wait {name}{record.options}": "wait until it ends"}),
        f"tfjob stop {name}{record.options}": "stop it",
    }
    if record.has_tensorboard:
        commands[_show_curves(record)] = "show its curves"
    known = f" as {record.id}" if record.id != name else ""
    return "\n".join([f"{click.style(name, bold=True)} is running in the background{known}", *listed(commands)])


def guidance(record: Record, storage: str, width: int) -> str:
    name, failure = record.name, record.status.failure
    commands = {}
    if record.state == "Suspended":
        commands[f"tfjob resume {name}{record.options}"] = "continue it"
    replica = f" {failure.replica}" if failure and failure.replica else ""
    commands[f"tfjob logs {name}{replica}{record.options}"] = "show all of its logs" if replica else "show its logs"
    commands[f"tfjob status {name}{record.options}"] = "show its replicas and attempts"
    if record.state == "Failed":
        commands[f"tfjob events {name}{record.options}"] = "list its events"
    if record.has_tensorboard:
        commands[_show_curves(record)] = "show its curves"
    commands[f"tfjob delete {name}{record.options}"] = "delete it and its logs"
    places = [f"  {what:<5}  {place}" for what, place in (("files", record.folder), ("data", storage)) if place]
    return "\n".join([*places, *_boxed("next", listed(commands), width)])


def _boxed(title: str, lines: Sequence[str], width: int) -> list[str]:
    inner = max(map(len, lines)) + 2
    if inner + 2 > width:
        return list(lines)
    top = f"╭─ {title} {'─' * (inner - len(title) - 3)}╮"
    return [top, *(f"│{line:<{inner}}│" for line in lines), f"╰{'─' * inner}╯"]
