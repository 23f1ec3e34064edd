"""Reading the logs of containers: CRI lines in rotated files, once or while they grow.

    for line in read([Source("worker-0", pod / "logs" / "tensorflow")], tail=10): ...

    with Follower(sources) as follower:
        while running:
            show(follower.poll())   # returns at once; ask again after POLL seconds
        show(follower.finish())

Below a container's folder lies one folder per restart, 0, 1, 2 ..., each with `log`, `log.1` ... (the newest first) and
`truncated`, the bytes that rotation threw away. A file is known by its inode: when it is renamed under a reader, the
reader drains it and goes on with the one that came after it.

`sources_of` finds the logs in the folder of a run by replica and attempt.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Self, TypeAlias

from tfjob.jobs.backend import Line
from tfjob.jobs.logs import LONGEST, character_start, readable, visible
from tfjob.local.logs.files import LogFiles
from tfjob.local.state.pod_history import PodRecord, history

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path


POLL = 0.1
Labels: TypeAlias = "Mapping[str, str]"
"""What the pods of a run are called in its logs, by name; a pod without a label keeps its name."""
_CHUNK = 1024 * 1024


class Source(NamedTuple):
    """Where the output of one container of a replica lies: POD/logs/CONTAINER."""

    replica: str
    folder: Path


def read(
    sources: Iterable[Source],
    *,
    tail: int | None = None,
    since: datetime | None = None,
    previous: bool = False,
) -> Iterator[Line]:
    """What is there now, merged by time: of each container's last run, or with `previous` of the run before it."""
    streams = []
    for source in sources:
        runs = restarts(source.folder)[: -1 if previous else None]
        if runs:
            streams.append(_Stream(source.replica, source.folder / str(runs[-1]), tail, since))
    return heapq.merge(*(stream.rest() for stream in streams), key=lambda line: line.time)


def restarts(folder: Path) -> list[int]:
    """The numbers of a container's runs, the last one last."""
    try:
        return sorted(int(entry.name) for entry in os.scandir(folder) if entry.name.isdecimal())
    except OSError:
        return []


class Follower:
    """Reads the logs of several containers as they grow, through rotations and restarts."""

    def __init__(
        self, sources: Iterable[Source] = (), *, tail: int | None = None, since: datetime | None = None
    ) -> None:
        self._since = since
        self._followed: dict[Source, _Followed] = {}
        for source in sources:
            self.add(source, tail=tail)

    def add(self, source: Source, *, tail: int | None = None) -> None:
        """Follow one more container; its folder need not exist yet."""
        if source not in self._followed:
            self._followed[source] = _Followed(source, tail, self._since)

    def close(self) -> None:
        """Follow nothing any longer."""
        for one in self._followed.values():
            one.close()
        self._followed.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def poll(self) -> list[Line]:
        """The lines that came since the last call, at most about a megabyte of each container, by time."""
        # Merged, not sorted: a clock that was set back must not reorder one container's lines.
        return list(heapq.merge(*(one.poll() for one in self._followed.values()), key=lambda line: line.time))

    def partial(self) -> dict[str, str]:
        """By replica, the line that has begun and not ended: a prompt, or a bar that is being redrawn."""
        return {source.replica: text for source, one in self._followed.items() if (text := one.partial())}

    def finish(self, source: Source | None = None) -> list[Line]:
        """Everything that is left, of one container or of all, which are then followed no longer."""
        ended = [self._followed.pop(one) for one in ([source] if source else list(self._followed))]
        return list(heapq.merge(*(one.finish() for one in ended), key=lambda line: line.time))


class _Followed:
    """One container, run after run."""

    def __init__(self, source: Source, tail: int | None, since: datetime | None) -> None:
        self._source = source
        self._has_begun = bool(restarts(source.folder))
        self._tail = tail if self._has_begun else None  # what comes later is new from its first line
        self._since = since
        self._run = -1
        self._stream: _Stream | None = None
        self._next_run()

    def poll(self) -> list[Line]:
        if self._stream is None and not self._next_run():
            return []
        assert self._stream is not None
        lines = self._stream.poll()
        if not lines and self._later_runs():
            # The run is over: what it wrote between the last look and its end is read before the next one's.
            lines = list(self._stream.rest())
            self._next_run()
        return lines

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def finish(self) -> Iterator[Line]:
        while self._stream is not None or self._next_run():
            assert self._stream is not None
            yield from self._stream.rest()
            self._stream = None

    def partial(self) -> str:
        return self._stream.partial() if self._stream else ""

    def _later_runs(self) -> list[int]:
        return [number for number in restarts(self._source.folder) if number > self._run]

    def _next_run(self) -> bool:
        later = self._later_runs()
        if not later:
            return False
        first = self._run < 0
        # As `kubectl logs -f`: begin with the present run, then miss none; nor any of one that has not begun.
        self._run = later[-1] if first and self._has_begun else later[0]
        folder = self._source.folder / str(self._run)
        self._stream = _Stream(self._source.replica, folder, self._tail if first else None, self._since)
        return True


class _Stream:
    """One run's files, read in the order in which they were written."""

    def __init__(self, replica: str, folder: Path, tail: int | None, since: datetime | None) -> None:
        self._folder = folder
        self._files = LogFiles(folder)
        self._lines = _Lines(replica, since)
        self._tail = tail
        self._since = since
        self._file: BinaryIO | None = None
        self._torn = b""
        self._begin()

    def poll(self) -> list[Line]:
        """The next lines, of at most about a megabyte; none when there are no more for now."""
        lines: list[Line] = []
        left = _CHUNK
        while left > 0 and (taken := self._advance(lines, left)):
            left -= taken
        return lines

    def rest(self) -> Iterator[Line]:
        """All lines up to the present end, the unfinished one too; closes the file."""
        try:
            lines: list[Line] = []
            while self._advance(lines, _CHUNK):
                yield from lines
                lines.clear()
            yield from self._lines.end()
        finally:
            self.close()

    def _advance(self, lines: list[Line], size: int) -> int:
        """Read once and add what became whole to `lines`; the bytes read, 0 at the present end."""
        while self._file is not None or self._begin():
            assert self._file is not None
            chunk = self._file.read(size)
            if not chunk:
                number = self._files.number_of(self._file)
                if number == 0:
                    return 0
                chunk = self._file.read(size)  # written after the look above and before the renaming
            if chunk:
                *records, self._torn = (self._torn + chunk).split(b"\n")
                lines += self._lines.take(records)
                return len(chunk)
            if not self._go_on(number):
                return 0
        return 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def partial(self) -> str:
        return self._lines.partial()

    def _begin(self) -> bool:
        if self._tail is not None:
            self._file = self._files.open_tail(self._tail)
        else:
            self._file = self._files.open_oldest(self._since)
            if self._since is None and (gone := self._files.truncated()):
                self._lines.notice(f"[tfjob: {gone} bytes of older output were rotated away]")
        return self._file is not None

    def _go_on(self, number: int | None) -> bool:
        """Open the file after the present one; number None says that the present one was rotated away."""
        assert self._file is not None
        opened = self._files.open_oldest() if number is None else self._files.open(number - 1)
        if opened is None:
            return False  # between two renamings; it will be there at the next look
        if number is not None and self._files.number_of(self._file) != number:
            opened.close()  # renamed meanwhile, so this may be another one
            return True
        if number is None:
            self._lines.notice("[tfjob: output may be missing here: it was rotated away before it could be read]")
        self._lines.take([self._torn] if self._torn else [])
        self._torn = b""
        self._file.close()
        self._file = opened
        return True


class _Lines:
    """Joins records into lines and makes them readable; holds at most one piece of a line."""

    def __init__(self, replica: str, since: datetime | None) -> None:
        self._replica = replica
        self._since = since
        self._held = b""
        self._begun = False
        self._stamp = b""
        self._time = datetime.fromtimestamp(0, UTC)
        self._notices: list[str] = []

    def take(self, records: list[bytes]) -> list[Line]:
        lines: list[Line] = []
        for record in records:
            stamp, _, rest = record.partition(b" stdout ")
            tag, text = rest[:1], rest[2:]
            if tag not in (b"F", b"P") or not self._set_time(stamp):
                continue  # the torn end of a full disk; the writer says how much is missing
            if self._begun:
                text = self._held + text
            if b"\r" in text:
                text = visible(text)
            while len(text) > LONGEST:
                cut = character_start(text, LONGEST)
                self._add(lines, text[:cut], more=True)
                text = text[cut:]
            if tag == b"F":
                self._add(lines, text)
                self._held, self._begun = b"", False
            else:
                self._held, self._begun = text, True
        return lines

    def notice(self, text: str) -> None:
        """Say `text` before the next line."""
        self._notices.append(text)

    def partial(self) -> str:
        return readable(self._held.rstrip(b"\r"))

    def end(self) -> list[Line]:
        lines: list[Line] = []
        if self._begun:
            self._add(lines, self._held)
            self._held, self._begun = b"", False
        return lines

    def _add(self, lines: list[Line], text: bytes, *, more: bool = False) -> None:
        if self._since is not None and self._time < self._since:
            return
        lines += [Line(self._time, self._replica, notice, notice=True) for notice in self._notices]
        self._notices.clear()
        lines.append(Line(self._time, self._replica, readable(text.rstrip(b"\r")), more))

    def _set_time(self, stamp: bytes) -> bool:
        if stamp == self._stamp:
            return True
        try:
            self._time = datetime.fromisoformat(stamp.decode("ascii"))
        except ValueError:
            return False
        self._stamp = stamp
        return True


class Earlier(NamedTuple):
    """A container's run before the last: in the same pod (`in_place`), or the last one of the pod before it."""

    source: Source
    in_place: bool


def sources_of(folder: Path, labels: Labels, replica: str | None) -> list[Source]:
    """The newest attempt of each replica that `replica` means (all, one, or one container: `worker-0/sidecar`)."""
    return [
        source for _, records in _pods(folder, labels, replica) for source in _containers(labels, records[-1], replica)
    ]


def earlier_sources(folder: Path, labels: Labels, replica: str | None) -> list[Earlier]:
    """The attempt before the newest, of each container that has one."""
    found = []
    for _, records in _pods(folder, labels, replica):
        older = {source.replica: source for source in _containers(labels, records[-2], replica)} if records[1:] else {}
        for source in _containers(labels, records[-1], replica):
            if len(restarts(source.folder)) > 1:
                found.append(Earlier(source, in_place=True))
            elif source.replica in older:
                found.append(Earlier(older[source.replica], in_place=False))
    return found


def _pods(folder: Path, labels: Labels, replica: str | None) -> Iterator[tuple[str, list[PodRecord]]]:
    for name, records in history(folder).items():
        if replica is None or replica.partition("/")[0] in (labels.get(name), name):
            yield name, records


def _containers(labels: Labels, record: PodRecord, replica: str | None) -> list[Source]:
    label = labels.get(record.name, record.name)
    container = replica.partition("/")[2] if replica else ""
    alone = len(record.containers) == 1
    named = [(f"{label}/{name}", name) for name in record.init_containers]
    named += [(label if alone else f"{label}/{name}", name) for name in record.containers]
    return [
        Source(shown, record.folder / "logs" / name)
        for shown, name in named
        if container in ("", name) and (record.folder / "logs" / name).is_dir()
    ]
