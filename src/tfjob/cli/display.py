"""What an attached run prints: prefixed lines of its replicas, and a line for every change of the job."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from tfjob.api.objects import Pod
from tfjob.cli.outcome import discard_stdout
from tfjob.controller.console import Line
from tfjob.controller.log_labels import container_labels
from tfjob.local.log_view import Follower, Source
from tfjob.local.pod_folder import pod_folder
from tfjob.plan.tasks import desired, task_of

if TYPE_CHECKING:
    from tfjob.api.types import TFJobStatus
    from tfjob.local.store import Run, Store
    from tfjob.plan.actions import News

QUIET_NEWS = ("SuccessfulCreate", "SuccessfulDelete", "ExitedWithCode", "TFJobSucceeded", "TFJobFailed", "TFJobSuspend")
"""News that the replicas' own lines, the states or the final line tell already, by the beginning of their reason."""
QUIET_STATES = ("", "Restarting", "Succeeded", "Failed")
"""States that the news or the final line tell."""
COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "bright_red")


class Display:
    """Follows one run and prints what is new at every `tick`; `several` says that other runs print here too."""

    def __init__(self, store: Store, run: Run, *, several: bool = False) -> None:
        self.store = store
        self.run = run
        self._follower = Follower([])
        self._followed: set[str] = set()
        self._shown = ("", "", "")
        self._owner = f"{run.job.metadata.name}/" if several else ""
        self.width = max((len(self._owner + name) for name in _source_names(run)), default=0)
        self._colours: dict[str, str] = {}
        self._muted = False

    def begin(self) -> None:
        """Says what starts, and what was found on the way there."""
        counts = Counter(task.type.lower() for task in desired(self.run.job))
        replicas = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        self.say(f"starting as {self.run.id} ({replicas})")
        for _, event in self.store.events(self.run.job.metadata.uid):
            self.say(event.message, warning=event.warning)

    def tick(self) -> None:
        """Prints a change of state and new lines."""
        run = self.store.run(self.run.job.metadata.uid)
        if run is not None:
            self._state(run.job.status)
        self._follow_new_pods()
        for line in self._follower.poll():
            self._print(line)

    def finish(self) -> None:
        """Prints what is left in the logs."""
        self.tick()
        for line in self._follower.finish():
            self._print(line)

    def news(self, news: News) -> None:
        """Prints news that the lines and states do not show already."""
        if not news.reason.startswith(QUIET_NEWS):
            self.say(news.message.removeprefix(f"TFJob {self.run.job.metadata.name} is "), warning=news.warning)

    def say(self, text: str, *, warning: bool = False) -> None:
        """One line about the job itself."""
        mark = click.style("!" if warning else "·", fg="yellow" if warning else None, dim=not warning)
        lines = text.replace("\n", "\n    ")
        self._echo(f"{mark} {self.run.job.metadata.name}: {lines}")

    def _state(self, status: TFJobStatus) -> None:
        up, _, asked = status.ready.partition("/")
        # A job of many replicas would otherwise print a line for each of them.
        shown = (status.state, status.reason, "all" if up == asked else "")
        if shown == self._shown or (shown[:2] == self._shown[:2] and not shown[2]):
            return
        self._shown = shown
        if status.state in QUIET_STATES or status.reason == "Starting":
            return
        reason = f" ({status.reason})" if status.reason not in ("", status.state) else ""
        detail = f": {status.message}" if status.message else ""
        self.say(f"{status.state} {status.ready}{reason}{detail}")

    def _follow_new_pods(self) -> None:
        for pod in self.store.children(Pod, self.run.job.metadata.uid):
            if pod.metadata.uid in self._followed:
                continue
            self._followed.add(pod.metadata.uid)
            for source in log_sources(self.run, pod):
                self._follower.add(source)

    def _print(self, line: Line) -> None:
        name = self._owner + line.replica
        colour = self._colours.setdefault(name, COLOURS[len(self._colours) % len(COLOURS)])
        prefix = click.style(f"{name:<{self.width}} |", fg=colour)
        text = click.style(line.text, dim=True) if line.notice else line.text
        self._echo(f"{prefix} {text}")

    def _echo(self, text: str) -> None:
        """Prints; when nobody can read it any longer, the job goes on all the same and its logs are kept."""
        if self._muted:
            return
        try:
            click.echo(text)
        except OSError as error:
            self._muted = True
            if not isinstance(error, BrokenPipeError):
                click.echo(f"cannot print any longer ({error.strerror}); the logs go on in {self.run.folder}", err=True)
            discard_stdout()


class Troubles(logging.Handler):
    """Shows what goes wrong in the machinery, each thing once; the whole of it is in the run's controller.log."""

    def __init__(self, display: Display) -> None:
        super().__init__(logging.WARNING)
        self._display = display
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """One line for a person."""
        error = record.exc_info[1] if record.exc_info else None
        text = f"{error}; trying again" if error else record.getMessage()
        if text not in self._told:
            self._told.add(text)
            self._display.say(text, warning=True)


def show_troubles(display: Display) -> None:
    """Sends the log of this process to the run's folder, and to the terminal in short."""
    logging.raiseExceptions = False  # a full disk must not fill the terminal with tracebacks
    logger = logging.getLogger("tfjob")
    logger.propagate = False
    logger.addHandler(Troubles(display))
    logger.addHandler(logging.FileHandler(display.run.folder / "controller.log", delay=True))


def log_sources(run: Run, pod: Pod) -> list[Source]:
    """Where the containers of a pod write; the main one is called like its task."""
    task = task_of(pod)
    folder = pod_folder(run.folder, pod) / "logs"
    names = container_labels(task.name if task else pod.metadata.name, pod.spec)
    return [Source(label, folder / container) for container, label in names.items()]


def _source_names(run: Run) -> Iterator[str]:
    for task in desired(run.job):
        template = run.job.spec.tf_replica_specs[task.type].template or {}
        yield from container_labels(task.name, template.get("spec") or {}).values()
