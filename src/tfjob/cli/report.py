"""Words about a run for people: how it ended, and what to type next."""

from __future__ import annotations

import click

from tfjob.api.types import Verdict
from tfjob.cli.shapes import shown_state
from tfjob.cli.tables import took
from tfjob.local.store import Run


def ending(run: Run) -> str:
    """The last lines of an attached run: its end, and the verdict if it failed."""
    status, name = run.job.status, run.job.metadata.name
    time = took(run.created, status.completion_time)
    if status.state == "Succeeded":
        restarts = f", {status.restarts} restart{'s' if status.restarts > 1 else ''}" if status.restarts else ""
        return click.style(f"{name} succeeded", fg="green") + f" in {time}{restarts}: {status.message}"
    if status.state == "Failed" and status.failure:
        return click.style(f"{name} failed", fg="red") + f" after {time}: " + verdict(status.failure, status.reason)
    state, reason = shown_state(run)
    because = f" ({reason})" if reason not in ("", state) else ""
    return f"{name} is {state}{because}; continue it with: tfjob resume {name}"


def verdict(failure: Verdict, reason: str = "") -> str:
    """Why a job failed, with the last lines of the replica that failed first."""
    why = f" [{reason}]" if reason and reason not in ("ReplicaFailed", failure.reason) else ""
    told = all(line in failure.message for line in failure.last_lines)
    lines = "" if told else "".join(f"\n    {line}" for line in failure.last_lines)
    said = f"\n  the last lines of {failure.replica}:{lines}" if lines else ""
    attempt = f" (attempt {failure.attempt})" if failure.attempt > 1 else ""
    return f"{failure.message}{attempt}{why}{said}"


def next_commands(run: Run) -> str:
    """What a user may want after a job went to the background."""
    name = run.job.metadata.name
    commands = {
        f"tfjob logs {name} -f": "its logs",
        f"tfjob status {name}": "how it stands",
        f"tfjob wait {name}": "until it ends",
        f"tfjob stop {name}": "stop it",
    }
    width = max(map(len, commands))
    lines = (f"  {command:<{width}}   {words}" for command, words in commands.items())
    return "\n".join([f"{click.style(name, bold=True)} runs in the background as {run.id}", *lines])
