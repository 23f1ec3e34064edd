"""The progress of a training, parsed from its output, and snapshots of jobs for the live view."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from tfjob.api.objects import Deployment
from tfjob.api.types import TFJob
from tfjob.controller.actions import Event
from tfjob.jobs.backend import Line, Record, Replica, Usage
from tfjob.plan.policy.last_lines import ANSI

_OF = r"(?:\s*(?:/|of)\s*(?P<{0}>\d+))?"
_EPOCH = re.compile(r"(?<![\w/])epoch\b[\s:#=\[]*(?P<epoch>\d+)" + _OF.format("epochs") + r"\b", re.IGNORECASE)
_STEP = re.compile(
    # A rate (`3ms/step`, `global_step/sec: 83`) or a fraction (`step 0.5`) is not a step.
    r"(?<![\w/])(?:global[_ ])?(?:step|iteration|iter)\b(?!/)[\s:#=\[]*(?P<step>\d+)(?!\.\d)"
    + _OF.format("steps")
    + r"\b",
    re.IGNORECASE,
)
_BATCH = re.compile(r"(?<![\w/])batch\b[\s:#=\[]*(?P<step>\d+)\s*(?:/|of)\s*(?P<steps>\d+)\b", re.IGNORECASE)
_KERAS = re.compile(r"\s*(?P<step>\d+)/(?:(?P<steps>\d+)|Unknown)\s+(?:[\[━]|-\s|\d+(?:h|m|s|ms|us)\b)")
_TQDM = re.compile(r"\d+%\|.*\|\s*(?P<step>\d+)/(?P<steps>\d+) \[")
_LOSS = re.compile(r"(?<![\w-])loss\b\s*[:=]?\s*(?P<loss>[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?|nan|inf)\b", re.IGNORECASE)
REMEMBERED = 20
"""Lines per replica that are searched for progress between two paintings; earlier ones are skipped."""


@dataclass(frozen=True)
class Progress:
    """The progress of a training."""

    epoch: int | None = None
    epochs: int | None = None
    step: int | None = None
    steps: int | None = None
    loss: str = ""

    def after(self, line: str) -> Progress:
        """Return the progress after a line of output; unchanged if the line has none."""
        text = ANSI.sub("", line)
        epoch = _EPOCH.search(text)
        step = _KERAS.match(text) or _TQDM.search(text) or _STEP.search(text) or _BATCH.search(text)
        found = self
        if epoch:
            number, of = int(epoch["epoch"]), _number(epoch["epochs"])
            # Keras counts steps from 1 in each epoch.
            same = number == self.epoch
            found = replace(found if same else Progress(), epoch=number, epochs=of or (self.epochs if same else None))
        if step:
            found = replace(found, step=int(step["step"]), steps=_number(step["steps"]))
        if found is not self and (loss := _LOSS.search(text)):
            found = replace(found, loss=loss["loss"])
        return found

    def __str__(self) -> str:
        words = []
        if self.epoch is not None:
            words.append(f"epoch {_of(self.epoch, self.epochs)}")
        if self.step is not None:
            words.append(f"step {_of(self.step, self.steps)}")
            if self.steps and self.epoch is None:
                words.append(f"{min(100, 100 * self.step // self.steps)}%")
        return " ".join([*words, f"loss {self.loss}"] if self.loss else words)


def _number(digits: str | None) -> int | None:
    return int(digits) if digits else None


def _of(number: int, whole: int | None) -> str:
    return f"{number}/{whole}" if whole else str(number)


@dataclass(frozen=True)
class Snapshot:
    """A job and its replicas, with the usage and the progress of each replica by name."""

    record: Record
    replicas: Sequence[Replica] = ()
    usage: Mapping[str, Usage] = field(default_factory=dict)
    doing: Mapping[str, str] = field(default_factory=dict)


class AttachedJob(Protocol):
    """A job that this process drives or follows, for the thread that shows it.

    `opening` says how it began for this process, such as `starting as mnist.2`, and `found` are the events of its
    submission. With a `tail`, the output begins with so many earlier lines of each replica. `news` are events with the
    time when this process learned of them, and `notices` are warnings about the attachment; the display removes both as
    it shows them. `folder` is the job's record, which grows with its logs.
    """

    record: Record
    opening: str
    tail: int | None
    folder: Path
    found: Sequence[Event]
    news: deque[tuple[datetime, Event]]
    notices: deque[str]

    @property
    def job(self) -> TFJob | Deployment: ...

    def unkept(self) -> list[Line]:
        """Remove and return the lines that could not be written to the record, for example because a disk is full."""

    def snapshot(self) -> Snapshot:
        """Return the present state of the job and its replicas, without `doing`."""


@dataclass
class _Said:
    """The output of one attempt of a replica."""

    attempts: int = 0
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    last: str = ""
    progress: Progress = field(default_factory=Progress)

    def doing(self, partial: str) -> str:
        """Return the progress, or else the last line; `partial` is a line without a newline, such as a progress bar."""
        while self.lines:
            line = self.lines.popleft()
            self.progress = self.progress.after(line)
            self.last = line if ANSI.sub("", line).strip() else self.last
        present = self.progress.after(partial) if partial else self.progress
        return str(present) or " ".join(ANSI.sub("", partial or self.last).split())


class Doings:
    """The progress of all replicas of a job."""

    def __init__(self) -> None:
        self._said: dict[str, _Said] = {}

    def take(self, line: Line) -> None:
        """Keep a line for the next `look`. This is cheap, because there may be 100,000 lines per second."""
        if not line.notice:
            self._of(line.replica).lines.append(line.text)

    def look(self, replicas: Iterable[Replica], partial: Mapping[str, str]) -> dict[str, str]:
        """Return the progress or the last line of each replica; after a restart, only of the new attempt."""
        begun = {label.partition("/")[0]: text for label, text in partial.items()}
        doing = {}
        for replica in replicas:
            said = self._of(replica.name)
            if said.attempts not in (0, replica.attempts):
                said.last, said.progress = "", Progress()
            said.attempts = replica.attempts
            doing[replica.name] = said.doing(begun.get(replica.name, ""))
        return doing

    def _of(self, label: str) -> _Said:
        return self._said.setdefault(label.partition("/")[0], _Said())
