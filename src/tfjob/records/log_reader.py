"""Read the logs of a record, of a local run or of a cluster: once, or while they grow.

    for line in read(choose(runs_of(job, folder, "worker-0")), tail=10): ...

    with Follower(sources) as follower:
        while running:
            show(follower.poll())   # returns at once; call it again after POLL seconds
        show(follower.finish())

A container's folder has one folder per restart, 0, 1, 2 ..., each with `log`, `log.1` ... (the newest first) and
`truncated`, the number of bytes that rotation removed. When a file is renamed under a reader, the reader reads it to
the end and continues with the next one.

Lines have the CRI's format; the stream `notice` marks a line that no program wrote.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Self

from tfjob.api.names import child_name
from tfjob.api.objects import Deployment
from tfjob.api.types import TFJob
from tfjob.jobs.backend import Line
from tfjob.jobs.logs import LONGEST, character_start, readable, visible
from tfjob.plan.facts.tasks import desired
from tfjob.records.log_files import is_current, open_first, open_next, truncated
from tfjob.records.pods import PodRecord, history, read_pod

if TYPE_CHECKING:
    from pathlib import Path

POLL = 0.1
OUTPUT, NOTICE = b"stdout", b"notice"
"""The streams; their names have the same length."""
LOST = "[tfjob: output may be missing here: log rotation removed it before it was read]"
_CHUNK = 1024 * 1024


class Source(NamedTuple):
    """The folder of one container's output, POD/logs/CONTAINER, and its label."""

    replica: str
    folder: Path


def read(runs: Mapping[str, Path], *, tail: int | None = None, since: datetime | None = None) -> Iterator[Line]:
    """Yield the existing lines of one run of each container, by label, merged by time."""
    streams = [_Stream(label, folder, tail, since) for label, folder in runs.items()]
    return heapq.merge(*(stream.rest() for stream in streams), key=lambda line: line.time)


def restarts(folder: Path) -> list[int]:
    """Return the numbers of a container's runs, the last one last."""
    try:
        return sorted(int(entry.name) for entry in os.scandir(folder) if entry.name.isdecimal())
    except OSError:
        return []


class Follower:
    """Reads the growing logs of several containers, through rotations and restarts."""

    def __init__(
        self, sources: Iterable[Source] = (), *, tail: int | None = None, since: datetime | None = None
    ) -> None:
        self._since = since
        self._followed: dict[Source, _Followed] = {}
        for source in sources:
            self.add(source, tail=tail)

    def add(self, source: Source, *, tail: int | None = None, whole: bool = False) -> None:
        """Follow one more container, with `whole` from its first run; its folder need not exist yet."""
        if source not in self._followed:
            self._followed[source] = _Followed(source, tail, self._since, whole=whole)

    def close(self) -> None:
        for one in self._followed.values():
            one.close()
        self._followed.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def poll(self) -> list[Line]:
        """Return the lines since the last call by time, about a megabyte per container at most."""
        # Merge, do not sort: a clock that was set back must not reorder the lines of a container.
        return list(heapq.merge(*(one.poll() for one in self._followed.values()), key=lambda line: line.time))

    def partial(self) -> dict[str, str]:
        """Return the unfinished line of each replica: a prompt, or a progress bar that is being redrawn."""
        return {source.replica: text for source, one in self._followed.items() if (text := one.partial())}

    def finish(self) -> list[Line]:
        """Return all remaining lines and stop following."""
        lines = list(heapq.merge(*(one.finish() for one in self._followed.values()), key=lambda line: line.time))
        self._followed.clear()
        return lines


class RecordFollower(Follower):
    """Follows every container of a record, by default from its first line, and those of pods that appear later."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._known: set[Path] = set()

    def add_pods(self, job: TFJob | Deployment) -> None:
        """Follow the pods that are new in the record; the job determines the names of replicas."""
        with suppress(FileNotFoundError):
            for pod in set((self._folder / "pods").iterdir()) - self._known:
                with suppress(FileNotFoundError):  # its spec is not written yet
                    for source in _containers(job, read_pod(pod), None):
                        self.add(source, whole=True)
                    self._known.add(pod)

    def skip_to_end(self, job: TFJob | Deployment, tail: int) -> None:
        """Begin with the last lines of each replica's newest pod, and leave out the pods before it."""
        for source in sources_of(job, self._folder):
            self.add(source, tail=tail)
        self._known |= {pod.folder for pods in history(self._folder).values() for pod in pods[:-1]}


class _Followed:
    """One container, run after run."""

    def __init__(self, source: Source, tail: int | None, since: datetime | None, *, whole: bool) -> None:
        self._source = source
        self._since = since
        self._run = -1
        self._stream: _Stream | None = None
        begun = restarts(source.folder)
        if begun and not whole:
            # As `kubectl logs -f`: begin with the present run, then follow every later one from its first line.
            self._open(begun[-1], tail)

    def poll(self) -> list[Line]:
        stream = self._stream or self._next_run()
        if stream is None:
            return []
        lines = stream.poll()
        if not lines and self._later_runs():
            # The run is over: read the rest of its lines before those of the next run.
            lines = list(stream.rest())
            self._next_run()
        return lines

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def finish(self) -> Iterator[Line]:
        while stream := self._stream or self._next_run():
            yield from stream.rest()
            self._stream = None

    def partial(self) -> str:
        return self._stream.lines.partial() if self._stream else ""

    def _later_runs(self) -> list[int]:
        return [number for number in restarts(self._source.folder) if number > self._run]

    def _next_run(self) -> _Stream | None:
        later = self._later_runs()
        return self._open(later[0]) if later else None

    def _open(self, run: int, tail: int | None = None) -> _Stream:
        self._run = run
        self._stream = _Stream(self._source.replica, self._source.folder / str(run), tail, self._since)
        return self._stream


class _Stream:
    """The files of one run, read in the order in which they were written."""

    def __init__(self, replica: str, folder: Path, tail: int | None, since: datetime | None) -> None:
        self.lines = _Lines(replica, since)
        self._folder = folder
        self._tail = tail
        self._since = since
        self._torn = b""
        self._file = self._begin()

    def poll(self) -> list[Line]:
        """Return the next lines, about a megabyte at most; none if there are no more for now."""
        lines: list[Line] = []
        left = _CHUNK
        while left > 0 and (taken := self._advance(lines, left)):
            left -= taken
        return lines

    def rest(self) -> Iterator[Line]:
        """Yield all lines up to the present end, including an unfinished one; close the file."""
        try:
            lines: list[Line] = []
            while self._advance(lines, _CHUNK):
                yield from lines
                lines.clear()
            yield from (*lines, *self.lines.end())
        finally:
            self.close()

    def _advance(self, lines: list[Line], size: int) -> int:
        """Read once and add complete lines to `lines`; return the bytes read, 0 at the present end."""
        self._file = self._file or self._begin()
        while self._file is not None:
            chunk = self._file.read(size)
            if not chunk:
                if is_current(self._folder, self._file):
                    return 0
                chunk = self._file.read(size)  # written after the read above and before the rename
            if chunk:
                *records, self._torn = (self._torn + chunk).split(b"\n")
                lines += self.lines.take(records)
                return len(chunk)
            following, exists = open_next(self._folder, self._file)
            if following is None:
                return 0  # between two renames; the next file exists at the next poll
            lines += self.lines.take([self._torn])  # the last record of a file may have no newline
            if not exists:
                self.lines.notices.append(LOST)
            self.close()
            self._file, self._torn = following, b""
        return 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin(self) -> BinaryIO | None:
        file = open_first(self._folder, self._tail, self._since)
        if self._tail is None and self._since is None and (gone := truncated(self._folder)):
            self.lines.notices.append(f"[tfjob: log rotation removed {gone} bytes of older output]")
        return file


class _Lines:
    """Joins records into readable lines; holds at most one piece of a line. `notices` appear before the next line."""

    def __init__(self, replica: str, since: datetime | None) -> None:
        self.notices: list[str] = []
        self._replica = replica
        self._since = since
        self._held = b""
        self._stamp = b""
        self._time = datetime.fromtimestamp(0, UTC)

    def take(self, records: list[bytes]) -> list[Line]:
        lines: list[Line] = []
        for record in records:
            stamp, _, rest = record.partition(b" ")
            stream, tag, text = rest[:6], rest[7:8], rest[9:]
            if stream not in (OUTPUT, NOTICE) or tag not in (b"F", b"P") or not self._set_time(stamp):
                continue  # cut off by a full disk; the writer reports how much is missing
            if stream == NOTICE:
                self._add(lines, text, notice=True)
                continue
            text = self._held + text
            if b"\r" in text:
                text = visible(text)
            while len(text) > LONGEST:
                cut = character_start(text, LONGEST)
                self._add(lines, text[:cut], more=True)
                text = text[cut:]
            self._held = text if tag == b"P" else b""
            if tag == b"F":
                self._add(lines, text)
        return lines

    def partial(self) -> str:
        return readable(self._held.rstrip(b"\r"))

    def end(self) -> list[Line]:
        lines: list[Line] = []
        if self._held:
            self._add(lines, self._held)
        return lines

    def _add(self, lines: list[Line], text: bytes, *, more: bool = False, notice: bool = False) -> None:
        if self._since is not None and self._time < self._since:
            return
        lines += [Line(self._time, self._replica, one, notice=True) for one in self.notices]
        self.notices.clear()
        lines.append(Line(self._time, self._replica, readable(text.rstrip(b"\r")), more, notice))

    def _set_time(self, stamp: bytes) -> bool:
        if stamp == self._stamp:
            return True
        try:
            self._time = datetime.fromisoformat(stamp.decode("ascii"))
        except ValueError:
            return False
        self._stamp = stamp
        return True


Runs = dict[str, list["Path | None"]]
"""The folders of a container's runs by its label, the newest last; None for a run that has not begun."""


def runs_of(job: TFJob | Deployment, folder: Path, replica: str | None = None) -> Runs:
    """Return the runs of the containers that `replica` selects: all, a replica, or a container (`worker-0/sidecar`)."""
    found: Runs = {}
    for pods in _pods(job, folder, replica):
        for source in (source for pod in pods for source in _containers(job, pod, replica)):
            found.setdefault(source.replica, []).extend(source.folder / str(run) for run in restarts(source.folder))
        for source in _containers(job, pods[-1], replica):
            if found[source.replica] and not restarts(source.folder):
                found[source.replica].append(None)
    return {label: runs for label, runs in found.items() if runs}


def choose(runs: Runs, *, previous: bool = False) -> dict[str, Path]:
    """Return the newest run of each container, or the one before it, if it exists."""
    at = -2 if previous else -1
    return {label: run for label, known in runs.items() if len(known) >= -at and (run := known[at])}


def sources_of(job: TFJob | Deployment, folder: Path, replica: str | None = None) -> list[Source]:
    """Return the started containers of the newest pod of each replica that `replica` selects."""
    newest = (source for pods in _pods(job, folder, replica) for source in _containers(job, pods[-1], replica))
    return [source for source in newest if source.folder.is_dir()]


def _pods(job: TFJob | Deployment, folder: Path, replica: str | None) -> Iterator[list[PodRecord]]:
    labels = _labels(job)
    for name, records in history(folder).items():
        if replica is None or replica.partition("/")[0] in (labels.get(name), name, records[-1].name):
            yield records


def _containers(job: TFJob | Deployment, pod: PodRecord, replica: str | None) -> list[Source]:
    label = pod.replica or _labels(job).get(pod.name, pod.name)
    container = replica.partition("/")[2] if replica else ""
    alone = len(pod.containers) == 1
    named = [(f"{label}/{name}", name) for name in pod.init_containers]
    named += [(label if alone else f"{label}/{name}", name) for name in pod.containers]
    return [Source(shown, pod.folder / "logs" / name) for shown, name in named if container in ("", name)]


def _labels(job: TFJob | Deployment) -> dict[str, str]:
    if isinstance(job, Deployment):
        return {}
    return {child_name(job, task.type, task.index): task.name for task in desired(job)}
