"""What a live view shows of a job at one moment, wherever the job runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import click

from tfjob.jobs.backend import Line, Record, Replica, Usage
from tfjob.jobs.progress import Progress

REMEMBERED = 20
"""Lines of a replica between two looks that are searched for its progress: of a flood, the end."""


@dataclass(frozen=True)
class Snapshot:
    """A job, its replicas, and by the name of a replica what it uses and what it is doing."""

    record: Record
    replicas: Sequence[Replica] = ()
    usage: Mapping[str, Usage] = field(default_factory=dict)
    doing: Mapping[str, str] = field(default_factory=dict)


@dataclass
class _Said:
    """What one attempt of a replica said."""

    attempts: int = 0
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    last: str = ""
    progress: Progress = field(default_factory=Progress)

    def doing(self, partial: str) -> str:
        """How far it is, else its last line; `partial` is one that has begun and is being redrawn, perhaps."""
        while self.lines:
            line = self.lines.popleft()
            self.progress = self.progress.after(line)
            self.last = line if click.unstyle(line).strip() else self.last
        present = self.progress.after(partial) if partial else self.progress
        return str(present) or " ".join(click.unstyle(partial or self.last).split())


class Doings:
    """What the replicas of a job are doing, by what they say."""

    def __init__(self) -> None:
        self._said: dict[str, _Said] = {}

    def take(self, line: Line) -> None:
        """Keeps a line, for the next look; cheap, because there may be a hundred thousand of them in a second."""
        if not line.notice:
            self._of(line.replica).lines.append(line.text)

    def look(self, replicas: Iterable[Replica], partial: Mapping[str, str]) -> dict[str, str]:
        """By replica, its progress or its last line; of a replica that was started again, only what came since."""
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
        """By replica: of one with several containers, all that they say."""
        return self._said.setdefault(label.partition("/")[0], _Said())
