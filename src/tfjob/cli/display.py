"""What an attached run prints: prefixed lines of its replicas, and a line for every change of the job."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tfjob.api.objects import Pod
from tfjob.local.kubelet import pod_folder
from tfjob.local.log_view import Follower, Line, Source
from tfjob.plan.tasks import task_of

if TYPE_CHECKING:
    from tfjob.api.types import TFJobStatus
    from tfjob.local.store import Run, Store
    from tfjob.plan.actions import News

QUIET_REASONS = ("SuccessfulCreate", "SuccessfulDelete", "ExitedWithCode", "TFJobSucceeded", "TFJobFailed")
COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "bright_red")


class Display:
    """Follows one run and prints what is new at every `tick`."""

    def __init__(self, store: Store, run: Run, *, logs: bool = True) -> None:
        self.store = store
        self.run = run
        self.logs = logs
        self._follower = Follower([])
        self._sources: dict[str, list[Source]] = {}
        self._shown = ("", "", "")
        self._width = max((len(name) for name in _task_names(run)), default=0)
        self._colours: dict[str, str] = {}

    def tick(self) -> None:
        """Prints new lines and a change of state."""
        self._follow_new_pods()
        for line in self._follower.poll():
            self._print(line)
        run = self.store.run(self.run.job.metadata.uid)
        if run is not None:
            self._state(run.job.status)
        sys.stdout.flush()

    def finish(self) -> None:
        """Prints what is left in the logs."""
        self.tick()
        for line in self._follower.finish():
            self._print(line)
        sys.stdout.flush()

    def news(self, news: News) -> None:
        """Prints news that the lines and states do not show already."""
        if not news.reason.startswith(QUIET_REASONS):
            self.say(news.message, warning=news.warning)

    def say(self, text: str, *, warning: bool = False) -> None:
        """One line about the job itself."""
        mark = click.style("!" if warning else "·", fg="yellow" if warning else None, dim=not warning)
        click.echo(f"{mark} {self.run.job.metadata.name}: {text}")

    def _state(self, status: TFJobStatus) -> None:
        shown = (status.state, status.reason, status.ready if status.state == "Running" else "")
        if shown == self._shown or not status.state:
            return
        self._shown = shown
        if status.state in ("Succeeded", "Failed"):
            return
        reason = f" ({status.reason})" if status.reason else ""
        detail = f": {status.message}" if status.message else ""
        ready = f" {status.ready}" if status.ready else ""
        self.say(f"{status.state}{ready}{reason}{detail}")

    def _follow_new_pods(self) -> None:
        if not self.logs:
            return
        for pod in self.store.children(Pod, self.run.job.metadata.uid):
            if pod.metadata.uid in self._sources:
                continue
            sources = log_sources(self.run, pod)
            self._sources[pod.metadata.uid] = sources
            for source in sources:
                self._follower.add(source)

    def _print(self, line: Line) -> None:
        colour = self._colours.setdefault(line.replica, COLOURS[len(self._colours) % len(COLOURS)])
        prefix = click.style(f"{line.replica:<{self._width}} |", fg=colour)
        text = click.style(line.text, dim=True) if line.notice else line.text
        click.echo(f"{prefix} {text}")


def log_sources(run: Run, pod: Pod) -> list[Source]:
    """Where the containers of a pod write; the main one is called like its task."""
    task = task_of(pod)
    name = task.name if task else pod.metadata.name
    folder = pod_folder(run.folder, pod) / "logs"
    main = [container["name"] for container in pod.spec.get("containers") or []]
    others = [container["name"] for container in pod.spec.get("initContainers") or []]
    alone = len(main) == 1
    sources = [Source(f"{name}/{container}", folder / container) for container in others]
    return sources + [Source(name if alone else f"{name}/{container}", folder / container) for container in main]


def _task_names(run: Run) -> list[str]:
    from tfjob.plan.tasks import desired

    return [task.name for task in desired(run.job)]
