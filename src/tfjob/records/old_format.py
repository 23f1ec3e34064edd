"""Records in the earlier format, one file of lines for a whole job, which becomes the logs of its containers.

lines.jsonl      the newest, lines.1.jsonl those before: [TIME, LABEL, TEXT, MORE, NOTICE, "POD UID/RESTART"]
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from pathlib import Path

import msgspec

from tfjob.api.objects import ObjectMeta, Pod
from tfjob.api.types import CONTAINER_NAME, TFJob
from tfjob.jobs.backend import Line
from tfjob.records.job_records import RecordWriter
from tfjob.records.pods import ContainerRun

NAMES = ("lines.1.jsonl", "lines.jsonl")
BATCH = 10_000


class _OldLine(msgspec.Struct, frozen=True, array_like=True):
    time: datetime
    label: str
    text: str
    more: bool = False
    notice: bool = False
    run: str = ""


_decoder = msgspec.json.Decoder(_OldLine)


def migrate(folder: Path, job: TFJob) -> None:
    """Write the lines of an old record as logs; where that fails, as on a full disk, the record stays as it is."""
    files = [path for name in NAMES if (path := folder / name).exists()]
    if not files:
        return
    partial = folder / "migrating"
    with suppress(OSError):
        if not (folder / "pods").exists():
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(mode=0o700)
            writer = RecordWriter(partial, job)
            _write(writer, job, files)
            if writer.trouble:
                return
            if (partial / "pods").exists():
                (partial / "pods").rename(folder / "pods")
        for path in files:
            path.unlink()
        shutil.rmtree(partial, ignore_errors=True)


def _write(writer: RecordWriter, job: TFJob, files: Sequence[Path]) -> None:
    labels = sorted({line.label for line in _lines(files)})
    lines = _lines(files)
    while batch := list(islice(lines, BATCH)):
        writer.add((Line(one.time, one.label, one.text, one.more, one.notice), _run(one, job, labels)) for one in batch)


def _run(line: _OldLine, job: TFJob, labels: Sequence[str]) -> ContainerRun:
    """The run of a container in a pod that has the containers whose labels are known."""
    uid, _, restart = line.run.partition("/")
    replica, _, container = line.label.partition("/")
    others = [name for label in labels if label.startswith(f"{replica}/") and (name := label.partition("/")[2])]
    spec = {
        # A label with the name of a container is like that of an init container, whatever it was.
        "initContainers": [{"name": name} for name in others],
        "containers": [{"name": CONTAINER_NAME}],
    }
    pod = Pod(metadata=ObjectMeta(name=f"{job.metadata.name}-{replica}", uid=uid), spec=spec)
    return ContainerRun(pod, container or CONTAINER_NAME, int(restart or 0))


def _lines(files: Sequence[Path]) -> Iterator[_OldLine]:
    """Without those that a full disk has torn."""
    for path in files:
        with path.open("rb") as file:
            for encoded in file:
                with suppress(msgspec.DecodeError):
                    yield _decoder.decode(encoded)
