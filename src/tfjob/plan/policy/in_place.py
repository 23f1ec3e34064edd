"""Restarts in place: the kubelet restarts a container that ended, at once or after a growing pause.

The plan only reports them, each once. If many replicas fail for the same reason, it reports one end for all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from msgspec.structs import replace

from tfjob.api.objects import ContainerStatus, Pod
from tfjob.api.types import TFJob, TFJobStatus
from tfjob.controller.actions import Event
from tfjob.durations import Durations
from tfjob.plan import events
from tfjob.plan.facts.task_state import End, TaskState, end_of
from tfjob.plan.facts.tasks import Task, main_container
from tfjob.plan.policy.verdict import sentence

PAUSE = re.compile(r"back-off (?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)? ")


@dataclass(frozen=True)
class Restarting:
    """A task whose container ended and was, or will be, restarted; `pause` is the kubelet's wait, if known."""

    task: Task
    end: End
    restarts: int
    waits: bool
    pause: timedelta | None

    @property
    def what(self) -> str:
        """How it ended, without its name: `exited 3`."""
        return sentence(self.task, self.end).removeprefix(f"{self.task.name} ")

    @property
    def next_start(self) -> str:
        """When it restarts, in words that do not change while it waits."""
        return events.NEXT_START.format(at=self.end.time + self.pause) if self.pause else events.AFTER_A_PAUSE


def restarting(task: Task, container: ContainerStatus | None) -> Restarting | None:
    """Return the latest restart in place of a container, done or due; None if it has not ended or has just ended."""
    ended = container.last_state.terminated if container else None
    if container is None or ended is None or ended.finished_at is None or container.state.terminated:
        return None
    waiting = container.state.waiting
    waits = waiting is not None and waiting.reason == events.CRASH_LOOP
    pause = _pause(waiting.message) if waiting and waits else None
    return Restarting(task, end_of(ended, ended.finished_at), container.restart_count + waits, waits, pause)


def between_tries(pod: Pod) -> str:
    """Return why the main container of a pod in phase Running does not run; empty if it does."""
    container = main_container(pod) if pod.status.phase == "Running" else None
    return container.state.waiting.reason if container and container.state.waiting else ""


def report(
    job: TFJob, status: TFJobStatus, views: Sequence[TaskState], durations: Durations
) -> tuple[TFJobStatus, list[Event]]:
    """Return the event for the latest restart that was not reported, and the status that records the report."""
    found = [one for view in views if not view.completed and (one := restarting(view.task, view.container))]
    last, reported = max(found, key=lambda one: one.end.time, default=None), status.told_restart
    if last is None or (reported and last.end.time <= reported + durations.quiet_restarts * (len(found) - 1)):
        return status, []
    event = events.restart_in_place(job, sentence(last.task, last.end), last.restarts, last.pause, waits=last.waits)
    # Do not report restarts from before we took the job over from v1.9.
    return replace(status, told_restart=last.end.time), [event] if job.status.state else []


def _pause(message: str) -> timedelta | None:
    """Return the wait in a kubelet's message: `back-off 1m20s restarting failed container=...`."""
    found = PAUSE.search(message)
    if found is None or not any(found.groups()):
        return None
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)
