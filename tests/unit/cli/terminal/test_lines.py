"""The order of what an attached run prints."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
from msgspec.structs import replace

from support.plan.builders import job as built
from tfjob.api.objects import ObjectMeta, Pod
from tfjob.api.types import TFJob
from tfjob.cli.terminal.lines import Display
from tfjob.controller.actions import Event
from tfjob.jobs.backend import Line, Record
from tfjob.jobs.progress import Snapshot
from tfjob.records.job_records import JobRecords
from tfjob.records.pods import ContainerRun

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Attached:
    """An attached job whose record, events and time the test chooses."""

    opening = "starting as mnist.1"
    tail: int | None = None
    found: Sequence[Event] = ()

    def __init__(self, folder: Path) -> None:
        made = built("mnist", worker=1)
        self.job: TFJob = replace(made, metadata=replace(made.metadata, uid="12345678-1", creation_timestamp=START))
        self.record = Record(self.job, "mnist.1", "Running", "", START)
        self.news: deque[tuple[datetime, Event]] = deque()
        self.notices: deque[str] = deque()
        self.writer = JobRecords(folder).begin(self.job)
        self.folder = self.writer.folder

    def unkept(self) -> list[Line]:
        return []

    def snapshot(self) -> Snapshot:
        return Snapshot(self.record)

    def print_line(self, seconds: int, text: str, pod_uid: str) -> None:
        pod = Pod(
            metadata=ObjectMeta(name="mnist-worker-0", uid=pod_uid), spec={"containers": [{"name": "tensorflow"}]}
        )
        line = Line(START + timedelta(seconds=seconds), "worker-0", text)
        self.writer.add([(line, ContainerRun(pod, "tensorflow", 0))])


def test_an_event_is_shown_between_the_lines_before_and_after_it(tmp_path: Path) -> None:
    attached = Attached(tmp_path)
    display = Display(attached)
    display.look()
    attached.print_line(1, "first attempt", "aaaaaaaa-1")
    attached.print_line(3, "second attempt", "bbbbbbbb-1")
    attached.news.append((START + timedelta(seconds=2), Event("TFJobRestarting", "restarting", warning=True)))
    shown = [click.unstyle(text) for text in [*display.look(), *display.finish()]]
    positions = [
        next(at for at, text in enumerate(shown) if part in text) for part in ("first", "restarting", "second")
    ]
    assert positions == sorted(positions)
    assert not attached.news
