"""`tfjob debug-dump`: everything that helps somebody else to understand a job, without what they must not see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tfjob.cli.completion import JOB
from tfjob.cli.context import On, find_job, namespace_option, on_option, open_backend

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tfjob.jobs.backend import Record
    from tfjob.jobs.sync_backend import SyncBackend

TAIL = 2000
LOG_BYTES = 100_000


@click.command("debug-dump")
@click.argument("job", type=JOB)
@click.option(
    "--file", "target", default="", metavar="FILE", help="Where to write it; by default JOB-debug.tar.gz here."
)
@click.option(
    "--tail", type=click.IntRange(min=0), default=TAIL, show_default=True, metavar="N", help="Lines of each replica."
)
@on_option
@namespace_option
def debug_dump(job: str, target: str, tail: int, on: On, namespace: str) -> None:
    """Collect a bundle for a bug report: the job, its pods, events, the ends of its logs, versions.

    Values that are secret by their name, shape or place are taken out; look into it before you send it.
    """
    from pathlib import Path

    with open_backend(on, namespace, write=False) as there:
        record = find_job(there, job)
        file = Path(target or f"{record.name}-debug.tar.gz")
        parts = dict(_parts(there, record, tail))
    _write(file, record.name, parts)
    click.echo(f"wrote {file}: {', '.join(parts)}")


def _parts(there: SyncBackend[Any], record: Record, tail: int) -> Iterator[tuple[str, str]]:
    """The files of a bundle; one that cannot be had says why."""
    import msgspec

    from tfjob.jobs.output import event_shape, job_shape, replica_shape

    yield "versions.txt", _versions()
    yield "summary.yaml", _yaml(msgspec.to_builtins(job_shape(record)))
    yield "replicas.yaml", _tried(lambda: _yaml([replica_shape(one) for one in there.replicas(record)]))
    yield "events.yaml", _tried(lambda: _yaml(msgspec.to_builtins([event_shape(one) for one in there.events(record)])))
    for name, content in there.documents(record).items():
        yield name, _yaml(content)
    yield from _record_files(record)
    for name, previous in (("logs.txt", False), ("logs-previous.txt", True)):
        yield name, _tried(lambda previous=previous: _logs(there, record, tail, previous=previous))


def _record_files(record: Record) -> Iterator[tuple[str, str]]:
    """The files of the record on this machine, if there is one; its logs are in a bundle by time."""
    from pathlib import Path

    for path in sorted(Path(record.folder).glob("*.*")) if record.folder else ():
        if path.suffix in (".json", ".yaml", ".log"):
            yield f"record/{path.name}", _tried(lambda path=path: _record_file(path))


def _record_file(path: Path) -> str:
    import msgspec
    import yaml

    from tfjob.jobs import redaction

    data = path.read_bytes()
    if path.suffix == ".log":
        return redaction.text(data[-LOG_BYTES:].decode(errors="replace"))
    try:
        return _yaml(msgspec.json.decode(data) if path.suffix == ".json" else list(yaml.safe_load_all(data)))
    except (msgspec.DecodeError, yaml.YAMLError):
        return "not to be had: it cannot be parsed\n"


def _logs(there: SyncBackend[Any], record: Record, tail: int, *, previous: bool) -> str:
    from tfjob.jobs import redaction
    from tfjob.jobs.backend import LogQuery

    return "".join(
        f"{line.time:%Y-%m-%dT%H:%M:%S.%fZ} {line.replica} | {redaction.text(line.text)}\n"
        for lines in there.logs(record, LogQuery(tail=tail, previous=previous))
        for line in lines
    )


def _versions() -> str:
    import platform

    from tfjob import __version__

    return f"tfjob {__version__}\npython {platform.python_version()}\n{platform.platform()}\n"


def _yaml(value: Any) -> str:
    from tfjob.api.text.writer import yaml_text
    from tfjob.jobs import redaction

    return yaml_text([redaction.document(value)])


def _tried(make: Any) -> str:
    """A part, or why it is not there: half a bundle is better than none."""
    from tfjob.cli import exit_codes

    try:
        text: str = make()
    except Exception as error:
        stop = exit_codes.explained(error)
        if stop is None:
            raise
        return f"not to be had: {stop.message}\n"
    return text


def _write(file: Any, name: str, parts: dict[str, str]) -> None:
    import io
    import os
    import tarfile
    import time

    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as whole, tarfile.open(fileobj=whole, mode="w:gz") as archive:  # noqa: PTH123 (private)
        for part, text in parts.items():
            data = text.encode()
            entry = tarfile.TarInfo(f"{name}-debug/{part}")
            entry.size = len(data)
            entry.mode, entry.mtime = 0o600, int(time.time())
            archive.addfile(entry, io.BytesIO(data))
