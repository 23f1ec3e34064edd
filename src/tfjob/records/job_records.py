"""Records of attached jobs of a cluster: the last seen state of the job, and the output of its pods.

records/NAMESPACE/NAME.UID8/job.json
                           /pods/...               as in the folder of a local run; see `pods`
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import msgspec

from tfjob.api.types import TFJob
from tfjob.jobs.backend import Line
from tfjob.records.log_reader import NOTICE, OUTPUT, Runs, Source, choose, read, runs_of
from tfjob.records.pods import ContainerRun, write_spec

SHORT_UID = 8
MOST_BYTES, FILES = 10 * 1024 * 1024, 5
"""Limits for the log of one run of a container: as much as a kubelet keeps."""


@dataclass(frozen=True)
class JobRecord:
    """The record of one job."""

    folder: Path
    job: TFJob

    def runs(self, replica: str | None = None) -> Runs:
        return runs_of(self.job, self.folder, replica)

    def last_lines(self, span: timedelta) -> Counter[Line]:
        """Return the lines of the newest runs in the time before the last line."""
        runs = choose(self.runs())
        end = max((line.time for line in read(runs, tail=1)), default=None)
        return Counter(read(runs, since=end - span) if end else ())


class JobRecords:
    """The records of one cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def folder_of(self, job: TFJob) -> Path | None:
        """Return the folder of this job's record, if there is one."""
        folder = self._folder(job)
        return folder if folder.exists() else None

    def of(self, job: TFJob) -> JobRecord | None:
        return _read(self._folder(job))

    def remove(self, job: TFJob) -> None:
        shutil.rmtree(self._folder(job), ignore_errors=True)

    def all(self, namespace: str | None = None) -> list[JobRecord]:
        """Return the records of a namespace or of all, the oldest job first."""
        files = self.folder.glob(f"{namespace or '*'}/*/job.json")
        found = [record for file in files if (record := _read(file.parent)) is not None]
        return sorted(found, key=lambda record: str(record.job.metadata.creation_timestamp))

    def begin(self, job: TFJob) -> RecordWriter:
        """Start or continue the record of a job."""
        folder = self._folder(job)
        with suppress(OSError):  # the writer reports it
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return RecordWriter(folder, job)

    def _folder(self, job: TFJob) -> Path:
        return self.folder / job.metadata.namespace / short_id(job)


class RecordWriter:
    """Writes the record of one job. A full disk costs the record, not the run; `trouble` holds the error.

    `lost` is the number of lines that the record lacks.
    """

    def __init__(self, folder: Path, job: TFJob) -> None:
        self.folder = folder
        self.trouble = ""
        self.lost = 0
        self._sources: set[Source] = set()
        self._torn: set[Path] = set()
        self.keep(job)

    def keep(self, job: TFJob) -> None:
        """Store the current state of the job."""
        with self._noting_trouble():
            partial = self.folder / "job.json.new"
            partial.touch(mode=0o600)
            partial.write_bytes(msgspec.json.encode(job))
            partial.replace(self.folder / "job.json")

    def add(self, lines: Iterable[tuple[Line, ContainerRun]]) -> list[Line]:
        """Add lines, each with the container run that wrote it; return those that could not be written."""
        groups: dict[tuple[str, str, int], tuple[ContainerRun, list[Line]]] = {}
        for line, run in lines:
            groups.setdefault((run.pod.metadata.uid, run.container, run.restart), (run, []))[1].append(line)
        unkept: list[Line] = []
        for run, group in groups.values():
            with self._noting_trouble():
                self._append(run, group)
                continue
            unkept += group
        self.lost += len(unkept)
        return unkept

    def _append(self, run: ContainerRun, lines: list[Line]) -> None:
        folder = run.folder(self.folder)
        source = Source(lines[0].replica, folder.parent)
        if source not in self._sources:
            write_spec(self.folder, run.pod, source.replica.partition("/")[0])
            self._sources.add(source)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        begun = b"\n" if folder in self._torn else b""
        self._torn.add(folder)
        with (folder / "log").open("ab") as file:
            file.write(begun + b"".join(map(_record, lines)))
            is_full = file.tell() > MOST_BYTES
        self._torn.discard(folder)
        if is_full:
            _rotate(folder)

    @contextmanager
    def _noting_trouble(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.trouble = error.strerror or str(error)


def _record(line: Line) -> bytes:
    """Return a line in the format of a CRI log."""
    stream, tag = NOTICE if line.notice else OUTPUT, b"P" if line.more else b"F"
    return b"%s %s %s %s\n" % (line.time.isoformat().encode(), stream, tag, line.text.encode())


def _rotate(folder: Path) -> None:
    """Make room for a new file; count and remove the bytes of the oldest one."""
    oldest, truncated = folder / f"log.{FILES - 1}", folder / "truncated"
    with suppress(FileNotFoundError):
        gone = oldest.stat().st_size
        with suppress(FileNotFoundError):
            gone += int(truncated.read_text())
        truncated.write_text(str(gone))
    for number in range(FILES - 2, -1, -1):
        with suppress(FileNotFoundError):
            (folder / (f"log.{number}" if number else "log")).replace(folder / f"log.{number + 1}")


def short_id(job: TFJob) -> str:
    """Return an id that distinguishes a job from earlier ones with its name: `mnist.1f2e3d4c`."""
    return f"{job.metadata.name}.{job.metadata.uid[:SHORT_UID]}"


def _read(folder: Path) -> JobRecord | None:
    try:
        return JobRecord(folder, msgspec.json.decode((folder / "job.json").read_bytes(), type=TFJob))
    except (OSError, msgspec.DecodeError):
        return None
