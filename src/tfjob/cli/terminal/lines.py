"""What an attached run prints: prefixed lines of its replicas, and a line for every change of the job."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from tfjob.jobs.logs import container_labels
from tfjob.jobs.progress import Doings
from tfjob.plan.facts.tasks import desired
from tfjob.plan.policy.in_place import CRASH_LOOP
from tfjob.plan.policy.pending import RESTARTED, STARTING

if TYPE_CHECKING:
    from tfjob.api.types import TFJob, TFJobStatus
    from tfjob.cli.terminal.screen import Screen
    from tfjob.controller.actions import Event
    from tfjob.jobs.backend import Line

READER_SECONDS = 0.02
"""Between two looks whether the reader of our output has gone on."""
QUIET_NEWS = ("SuccessfulCreate", "SuccessfulDelete", "ExitedWithCode", "TFJobSucceeded", "TFJobFailed", "TFJobSuspend")
"""Events that the replicas' own lines, the states or the final line tell already, by the beginning of their reason."""
QUIET_STATES = ("", "Restarting", "Succeeded", "Failed")
"""States that the news or the final line tell."""
QUIET_REASONS = (("Pending", STARTING), ("Running", STARTING), ("Running", CRASH_LOOP), ("Running", RESTARTED))
"""The same of a state for a reason."""
COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "bright_red")


class Display:
    """Prints what is new of one job; `several` says that other jobs print on the same screen.

    `doings` is what its lines tell of the progress of its replicas.
    """

    def __init__(self, job: TFJob, screen: Screen, *, several: bool = False) -> None:
        self.doings = Doings()
        self._job = job
        self._screen = screen
        self._is_live = screen.width is not None
        self._shown = ("", "", "")
        self._owner = f"{job.metadata.name}/" if several else ""
        self.width = max((len(self._owner + name) for name in _labels(job)), default=0)
        self._colours: dict[str, str] = {}

    @property
    def is_behind(self) -> bool:
        """Whether its lines should wait where they are."""
        return self._screen.is_behind

    @property
    def is_left(self) -> bool:
        """Whether nobody reads its lines any longer."""
        return self._screen.is_left

    async def has_reader(self) -> bool:
        """Waits until whoever reads its lines has come far enough for more; False if nobody does any longer."""
        while self.is_behind:
            await asyncio.sleep(READER_SECONDS)
        return not self.is_left

    def begin(self, where: str) -> None:
        """Says what starts."""
        counts = Counter(task.type.lower() for task in desired(self._job))
        replicas = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        self.say(f"starting {where} ({replicas})")

    def state(self, status: TFJobStatus) -> None:
        """Prints a change of state."""
        up, _, asked = status.ready.partition("/")
        # A job of many replicas would otherwise print a line for each of them.
        shown = (status.state, status.reason, "all" if up == asked else "")
        if shown == self._shown or (shown[:2] == self._shown[:2] and not shown[2]):
            return
        self._shown = shown
        if status.state in QUIET_STATES or (status.state, status.reason) in QUIET_REASONS:
            return
        reason = f" ({status.reason})" if status.reason not in ("", status.state) else ""
        detail = f": {status.message}" if status.message else ""
        self.say(f"{status.state} {status.ready}{reason}{detail}")

    def line(self, line: Line) -> None:
        """Prints a line of a replica."""
        name = self._owner + line.replica
        colour = self._colours.setdefault(name, COLOURS[len(self._colours) % len(COLOURS)])
        prefix = click.style(f"{name:<{self.width}} |", fg=colour)
        text = click.style(line.text, dim=True) if line.notice else line.text
        self._screen.print(f"{prefix} {text}")
        if self._is_live:
            self.doings.take(line)

    def news(self, news: Event) -> None:
        """Prints news that the lines and states do not show already."""
        if not news.reason.startswith(QUIET_NEWS):
            self.say(news.message.removeprefix(f"TFJob {self._job.metadata.name} is "), warning=news.warning)

    def say(self, text: str, *, warning: bool = False) -> None:
        """One line about the job itself."""
        mark = click.style("!" if warning else "·", fg="yellow" if warning else None, dim=not warning)
        lines = text.replace("\n", "\n    ")
        self._screen.print(f"{mark} {self._job.metadata.name}: {lines}")


def level(displays: list[Display]) -> None:
    """Makes the lines of several jobs begin at one column."""
    for display in displays:
        display.width = max(other.width for other in displays)


def _labels(job: TFJob) -> Iterator[str]:
    for task in desired(job):
        template = job.spec.tf_replica_specs[task.type].template or {}
        yield from container_labels(task.name, template.get("spec") or {}).values()
