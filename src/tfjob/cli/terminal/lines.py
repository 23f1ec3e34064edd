"""The lines that an attached run prints: the output of its replicas, and changes of the job."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from tfjob.jobs import explain
from tfjob.jobs.backend import summary
from tfjob.jobs.progress import Doings
from tfjob.jobs.replicas import log_labels, replica_counts
from tfjob.records.log_reader import RecordFollower

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tfjob.api.types import TFJobStatus
    from tfjob.jobs.backend import Line
    from tfjob.jobs.progress import AttachedJob, Snapshot

COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "bright_red")


class Display:
    """The new lines of one job. With `several` jobs, prefixes name the job too; if `quiet`, there are only warnings."""

    def __init__(self, job: AttachedJob, *, several: bool = False, quiet: bool = False) -> None:
        self.folder = str(job.folder)
        self._job = job
        self._quiet = quiet
        self._has_begun = quiet
        self._doings = Doings()
        self._follower = RecordFollower(job.folder)
        if job.tail is not None:
            self._follower.skip_to_end(job.record.object, job.tail)
        self._shown = ("", "", "")
        self._owner = f"{job.record.name}/" if several else ""
        self.width = max((len(self._owner + name) for name in log_labels(job.record.object)), default=0)
        self._colours: dict[str, str] = {}

    def look(self) -> list[str]:
        """Return what is new, at most about a megabyte per container."""
        texts = list(self._begin())
        while self._job.notices:
            texts.append(self.say(self._job.notices.popleft(), warning=True))
        if self._quiet:
            return texts
        # Take the events before reading the logs: what a replica printed before an event is in its log by then.
        news = [self._job.news.popleft() for _ in range(len(self._job.news))]
        job = self._job.job
        self._follower.add_pods(job)
        lines = deque([*self._job.unkept(), *self._follower.poll()])
        for time, event in news:
            if explain.is_news(event):
                while lines and lines[0].time <= time:
                    texts += self._lines([lines.popleft()])
                message = event.message.removeprefix(f"TFJob {self._job.record.name} is ")
                texts.append(self.say(message, warning=event.warning))
        return [*texts, *self._state(summary(job)), *self._lines(lines)]

    def finish(self) -> list[str]:
        """Return the last lines, which have no newline."""
        return [] if self._quiet else self._lines(self._follower.finish())

    def snapshot(self) -> Snapshot:
        snapshot = self._job.snapshot()
        return replace(snapshot, doing=self._doings.look(snapshot.replicas, self._follower.partial()))

    def say(self, text: str, *, warning: bool = False) -> str:
        mark = click.style("!" if warning else "·", fg="yellow" if warning else None, dim=not warning)
        lines = text.replace("\n", "\n    ")
        return f"{mark} {self._job.record.name}: {lines}"

    def _begin(self) -> Iterator[str]:
        if not self._has_begun:
            self._has_begun = True
            yield self.say(f"{self._job.opening} ({replica_counts(self._job.record.object)})")
            for event in self._job.found:
                yield self.say(event.message, warning=event.warning)

    def _state(self, status: TFJobStatus) -> Iterator[str]:
        up, _, asked = status.ready.partition("/")
        # Not a line per replica that becomes ready.
        shown = (status.state, status.reason, "all" if up == asked else "")
        if shown == self._shown or (shown[:2] == self._shown[:2] and not shown[2]):
            return
        self._shown = shown
        if explain.is_news_state(status):
            reason = f" ({status.reason})" if status.reason not in ("", status.state) else ""
            detail = f": {status.message}" if status.message else ""
            yield self.say(f"{status.state} {status.ready}{reason}{detail}")

    def _lines(self, lines: Iterable[Line]) -> list[str]:
        texts = []
        for line in lines:
            name = self._owner + line.replica
            colour = self._colours.setdefault(name, COLOURS[len(self._colours) % len(COLOURS)])
            prefix = click.style(f"{name:<{self.width}} |", fg=colour)
            texts.append(f"{prefix} {click.style(line.text, dim=True) if line.notice else line.text}")
            self._doings.take(line)
        return texts


def displays(jobs: Sequence[AttachedJob], *, quiet: bool) -> list[Display]:
    made = [Display(job, several=len(jobs) > 1, quiet=quiet) for job in jobs]
    for display in made:
        display.width = max(other.width for other in made)
    return made
