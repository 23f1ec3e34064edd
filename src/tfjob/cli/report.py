"""Words about a run for people: how it ended, and what to type next."""

from __future__ import annotations

import click

from tfjob.api.types import Verdict
from tfjob.cli.tables import took
from tfjob.controller.console import Record


def ending(record: Record) -> str:
    """The last lines of an attached run: its end, and the verdict if it failed."""
    status, name = record.job.status, record.name
    time = took(record.created, status.completion_time)
    curves = f"\n  its curves: {_show_curves(record)}" if record.job.spec.tensor_board else ""
    if status.state == "Succeeded":
        restarts = f", {status.restarts} restart{'s' if status.restarts > 1 else ''}" if status.restarts else ""
        return click.style(f"{name} succeeded", fg="green") + f" in {time}{restarts}: {status.message}{curves}"
    if status.state == "Failed" and status.failure:
        why = verdict(status.failure, status.reason)
        return click.style(f"{name} failed", fg="red") + f" after {time}: {why}{curves}"
    because = f" ({record.reason})" if record.reason not in ("", record.state) else ""
    return f"{name} is {record.state}{because}; continue it with: tfjob resume {name}{record.options}"


def verdict(failure: Verdict, reason: str = "") -> str:
    """Why a job failed, with the last lines of the replica that failed first."""
    why = f" [{reason}]" if reason and reason not in ("ReplicaFailed", failure.reason) else ""
    told = all(line in failure.message for line in failure.last_lines)
    lines = "" if told else "".join(f"\n    {line}" for line in failure.last_lines)
    said = f"\n  the last lines of {failure.replica}:{lines}" if lines else ""
    attempt = f" (attempt {failure.attempt})" if failure.attempt > 1 else ""
    return f"{failure.message}{attempt}{why}{said}"


def _show_curves(record: Record) -> str:
    return f"tfjob tensorboard {record.name}{record.options}"


def next_commands(record: Record) -> str:
    """What a user may want after a job went to the background."""
    name = record.name
    commands = {
        f"tfjob logs {name} -f{record.options}": "its logs",
        f"tfjob status {name}{record.options}": "how it stands",
        f"tfjob wait {name}{record.options}": "until it ends",
        f"tfjob stop {name}{record.options}": "stop it",
    }
    if record.job.spec.tensor_board:
        commands[_show_curves(record)] = "its curves"
    width = max(map(len, commands))
    lines = (f"  {command:<{width}}   {words}" for command, words in commands.items())
    known = f" as {record.id}" if record.id != name else ""
    return "\n".join([f"{click.style(name, bold=True)} runs in the background{known}", *lines])
