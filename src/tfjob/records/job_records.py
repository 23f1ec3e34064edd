"""What attached runs kept on this machine of jobs of a cluster: the job as it was last seen, and the lines it printed.

records/NAMESPACE/NAME.UID8/job.json
                           /lines.jsonl        the newest
                           /lines.1.jsonl      those before them
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import merge
from os import SEEK_END
from pathlib import Path
from typing import BinaryIO

import msgspec

from tfjob.api.types import TFJob
from tfjob.jobs.backend import Line

SHORT_UID = 8
MOST_BYTES = 64 * 1024 * 1024
"""Of one file of lines; when it is full it becomes the older one."""
AT_ONCE = 1024 * 1024
MISSING = "[tfjob: output is missing here: nobody read it before it was thrown away]"


class KeptLine(msgspec.Struct, frozen=True, array_like=True):
    """A line, and which run of its container wrote it."""

    time: datetime
    replica: str
    text: str
    more: bool = False
    notice: bool = False
    run: str = ""

    @property
    def line(self) -> Line:
        """As commands print it."""
        return Line(self.time, self.replica, self.text, self.more, self.notice)


_lines = msgspec.json.Decoder(KeptLine)


@dataclass(frozen=True)
class JobRecord:
    """What was kept of one job."""

    folder: Path
    job: TFJob

    def lines(self) -> Iterator[KeptLine]:
        """Every line that was kept, in the order in which they came; a torn end is left out."""
        for name in ("lines.1.jsonl", "lines.jsonl"):
            try:
                with (self.folder / name).open("rb") as file:
                    yield from _decoded(file)
            except FileNotFoundError:
                continue

    def labels(self) -> list[str]:
        """Who wrote lines."""
        return sorted({line.replica for line in self.lines()})

    def runs(self) -> dict[str, list[str]]:
        """By label, the runs of the container that lines were kept of, the last one last."""
        found: dict[str, list[str]] = {}
        for line in self.lines():
            known = found.setdefault(line.replica, [])
            if line.run not in known:
                known.append(line.run)
        return found

    def lines_of(self, wanted: Mapping[str, str], *, tail: int | None, since: datetime | None) -> list[Line]:
        """The lines of one run of each container, by label, merged by time."""
        kept: dict[str, deque[Line]] = {label: deque(maxlen=tail) for label in wanted}
        for line in self.lines():
            if wanted.get(line.replica) == line.run and (since is None or line.time >= since):
                kept[line.replica].append(line.line)
        return list(merge(*kept.values(), key=lambda line: line.time))

    def remove(self) -> None:
        """Forgets the job."""
        shutil.rmtree(self.folder, ignore_errors=True)


class JobRecords:
    """The records of one cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def folder_of(self, job: TFJob) -> Path | None:
        """Where the record of that very job lies, if there is one."""
        folder = self._folder(job)
        return folder if folder.exists() else None

    def of(self, job: TFJob) -> JobRecord | None:
        """The record of that very job."""
        folder = self.folder_of(job)
        return None if folder is None else _read(folder)

    def all(self, namespace: str | None = None) -> list[JobRecord]:
        """Every record of a namespace or of all, the oldest job first."""
        files = self.folder.glob(f"{namespace or '*'}/*/job.json")
        found = [record for file in files if (record := _read(file.parent)) is not None]
        return sorted(found, key=lambda record: str(record.job.metadata.creation_timestamp))

    def begin(self, job: TFJob) -> RecordWriter:
        """Starts, or goes on with, the record of a job."""
        folder = self._folder(job)
        with suppress(OSError):  # the writer will say so
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return RecordWriter(folder, job)

    def _folder(self, job: TFJob) -> Path:
        return self.folder / job.metadata.namespace / short_id(job)


class RecordWriter:
    """Writes the record of one job; a disk that is full costs the record, not the run."""

    def __init__(self, folder: Path, job: TFJob) -> None:
        self.folder = folder
        self.trouble = ""
        self.files = 0
        """How many files are full by now."""
        self._file: BinaryIO | None = None
        self._encode = msgspec.json.Encoder().encode
        self.keep(job)

    def keep(self, job: TFJob) -> None:
        """The job as it is now."""
        try:
            partial = self.folder / "job.json.new"
            partial.touch(mode=0o600)
            partial.write_bytes(msgspec.json.encode(job))
            partial.replace(self.folder / "job.json")
        except OSError as error:
            self.trouble = error.strerror or str(error)

    def add(self, line: Line, run: str) -> None:
        """One more line."""
        try:
            if self._file is None:
                self._file = (self.folder / "lines.jsonl").open("ab")
            kept = KeptLine(line.time, line.replica, line.text, line.more, line.notice, run)
            self._file.write(self._encode(kept) + b"\n")
            if self._file.tell() > MOST_BYTES:
                self.close()
                (self.folder / "lines.jsonl").replace(self.folder / "lines.1.jsonl")
                self.files += 1
        except OSError as error:
            self.trouble = error.strerror or str(error)

    def flush(self) -> None:
        """Lets others read what was written."""
        try:
            if self._file is not None:
                self._file.flush()
        except OSError as error:
            self.trouble = error.strerror or str(error)

    def close(self) -> None:
        """Ends the writing."""
        file, self._file = self._file, None
        try:
            if file is not None:
                file.close()
        except OSError as error:
            self.trouble = error.strerror or str(error)


class RecordReader:
    """Reads what a writer adds from now on, when there is time for it."""

    def __init__(self, writer: RecordWriter) -> None:
        writer.flush()
        self._writer = writer
        self._number = writer.files
        self._file = self._opened()
        if self._file is not None:
            self._file.seek(0, SEEK_END)

    def read(self) -> list[Line]:
        """The next lines, a notice where some were thrown away before; none when all were read that are there."""
        self._writer.flush()
        lines: list[Line] = []
        while not lines:
            self._file = self._file or self._opened()
            if self._file is not None:
                lines += [kept.line for kept in _decoded(self._file.readlines(AT_ONCE))]
            if not lines and not self._go_on(lines):
                break
        return lines

    def close(self) -> None:
        """Reads no more."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> BinaryIO | None:
        name = {0: "lines.jsonl", 1: "lines.1.jsonl"}.get(self._writer.files - self._number)
        try:
            return (self._writer.folder / name).open("rb") if name else None
        except OSError:
            return None  # nothing was written yet, or it cannot be

    def _go_on(self, lines: list[Line]) -> bool:
        """To the file after the present one, if there is one."""
        if self._number == self._writer.files:
            return False
        self.close()
        kept = max(self._number + 1, self._writer.files - 1)
        if kept > self._number + 1:
            lines.append(Line(datetime.now(UTC), "", MISSING, notice=True))
        self._number = kept
        return True


def short_id(job: TFJob) -> str:
    """What tells a job from others of its name that were before it: `mnist.1f2e3d4c`."""
    return f"{job.metadata.name}.{job.metadata.uid[:SHORT_UID]}"


def _decoded(lines: Iterable[bytes]) -> Iterator[KeptLine]:
    """Without those that a full disk has torn."""
    for encoded in lines:
        with suppress(msgspec.DecodeError):
            yield _lines.decode(encoded)


def _read(folder: Path) -> JobRecord | None:
    try:
        return JobRecord(folder, msgspec.json.decode((folder / "job.json").read_bytes(), type=TFJob))
    except (OSError, msgspec.DecodeError):
        return None
