"""`tfjob debug-dump`: collect what explains a job's behavior, without its secrets."""

from __future__ import annotations

import io
import platform
import tarfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfjob import __version__
from tfjob.cli import exit_codes
from tfjob.cli.completion import JOB
from tfjob.cli.context import On, WholeNumber, find_job, open_backend, place_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfjob.jobs.backend import Record
    from tfjob.jobs.sync_backend import SyncBackend

LOG_BYTES = 100_000
RECORD_FILES = (".json", ".yaml", ".log")


@click.command("debug-dump")
@click.argument("job", type=JOB)
@click.option(
    "--file",
    "target",
    default="",
    metavar="FILE",
    help="File to write; default: JOB-debug.tar.gz in the current folder.",
)
@click.option(
    "--tail", type=WholeNumber(min=0), default=2000, show_default=True, metavar="N", help="Log lines per replica."
)
@place_options
def debug_dump(job: str, target: str, tail: int, on: On, namespace: str) -> None:
    """Collect the job, its pods, events, last log lines and versions in an archive for a bug report.

    Replaces the values of Secrets, passwords, tokens and keys with (redacted). Check the archive before you send it:
    a secret that looks like ordinary text stays in it.
    """
    from tfjob.jobs.output import event_shape, job_shape, replica_shape

    versions = f"tfjob {__version__}\npython {platform.python_version()}\n{platform.platform()}\n"
    with open_backend(on, namespace, write=False) as there:
        record = find_job(there, job)
        files = sorted(Path(record.folder).glob("*.*")) if record.folder else []
        parts: dict[str, Callable[[], str]] = {
            "versions.txt": lambda: versions,
            "summary.yaml": lambda: _yaml(job_shape(record)),
            "replicas.yaml": lambda: _yaml([replica_shape(one) for one in there.replicas(record)]),
            "events.yaml": lambda: _yaml([event_shape(one) for one in there.events(record)]),
            **{name: partial(_yaml, content) for name, content in there.documents(record).items()},
            **{f"record/{one.name}": partial(_record_file, one) for one in files if one.suffix in RECORD_FILES},
            "logs.txt": lambda: _logs(there, record, tail, previous=False),
            "logs-previous.txt": lambda: _logs(there, record, tail, previous=True),
        }
        file = Path(target or f"{record.name}-debug.tar.gz")
        _write(file, record.name, {name: _attempt(make) for name, make in parts.items()})
    click.echo(f"wrote {file}: {', '.join(parts)}")


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
        return "not available: the file cannot be parsed\n"


def _logs(there: SyncBackend[Any], record: Record, tail: int, *, previous: bool) -> str:
    from tfjob.jobs import redaction
    from tfjob.jobs.backend import LogQuery

    return "".join(
        f"{line.time:%Y-%m-%dT%H:%M:%S.%fZ} {line.replica} | {redaction.text(line.text)}\n"
        for lines in there.logs(record, LogQuery(tail=tail, previous=previous))
        for line in lines
    )


def _yaml(value: Any) -> str:
    import msgspec

    from tfjob.jobs import redaction
    from tfjob.jobs.output import yaml_text

    return yaml_text(redaction.document(msgspec.to_builtins(value)))


def _attempt(make: Callable[[], str]) -> str:
    """Return a part, or why it is missing: an incomplete archive is better than none."""
    try:
        return make()
    except Exception as error:
        stop = exit_codes.explained(error)
        if stop is None:
            raise
        return f"not available: {stop.message}\n"


def _write(file: Path, name: str, parts: dict[str, str]) -> None:
    file.touch(mode=0o600)
    with tarfile.open(file, mode="w:gz") as archive:
        for part, text in parts.items():
            data = text.encode()
            entry = tarfile.TarInfo(f"{name}-debug/{part}")
            entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
            archive.addfile(entry, io.BytesIO(data))
