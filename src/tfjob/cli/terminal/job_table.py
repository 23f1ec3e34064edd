"""The rows and columns of a list of jobs, as `ps` prints them once and `ps -w` keeps them up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfjob.jobs.backend import Record
    from tfjob.jobs.sync_backend import SyncBackend


class Where(Protocol):
    """The last of the wide columns: where a job is."""

    title: str

    def __call__(self, record: Record) -> str:
        """The cell of one job; empty if there is nothing to say."""


class Folders:
    """On this machine: the folder of its record."""

    title = "FOLDER"

    def __call__(self, record: Record) -> str:
        """The folder."""
        return record.folder


class Nodes:
    """On a cluster: the nodes that its pods are on; costs a request for a job that has not ended."""

    title = "NODES"

    def __init__(self, there: SyncBackend[Any]) -> None:
        self._there = there

    def __call__(self, record: Record) -> str:
        """The names of the nodes."""
        from tfjob.plan.facts.conditions import is_finished

        replicas = () if is_finished(record.job.status) else self._there.replicas(record)
        return ",".join(sorted({replica.node for replica in replicas if replica.node}))


class Columns:
    """What `ps` shows of a job: a few columns, or all; `namespaces` and `runs` say what else tells jobs apart."""

    def __init__(self, where: Where, *, is_wide: bool = False, namespaces: bool = False, runs: bool = False) -> None:
        self._is_wide = is_wide
        self._where = where
        self._namespaces = namespaces or is_wide
        self._runs = runs
        self.titles = [
            *(["NAMESPACE"] if self._namespaces else []),
            *("NAME", "STATE", "READY", "RESTARTS", "AGE"),
            *(["DURATION", "ATTEMPT", "REPLICAS"] if is_wide else []),
            "REASON",
            *([where.title] if is_wide else []),
        ]

    def name(self, record: Record) -> str:
        """What a command line calls it: NAME alone where that means it, tfja/NAME or NAME.1 where not."""
        return record.id if self._runs or "/" in record.id else record.name

    def rows(self, records: Sequence[Record]) -> list[list[str]]:
        """A row a job."""
        return [self._row(record) for record in records]

    def _row(self, record: Record) -> list[str]:
        from tfjob.jobs.report import age

        status: Any = record.job.status
        return [
            *([record.job.metadata.namespace] if self._namespaces else []),
            self.name(record),
            record.state,
            status.ready or "-",
            str(status.restarts),
            age(record.created),
            *([_duration(record), str(status.attempt or "-"), _replicas(record)] if self._is_wide else []),
            record.reason or "-",
            *([self._where(record) or "-"] if self._is_wide else []),
        ]


def _duration(record: Record) -> str:
    """How long it ran, or has run by now; nothing of a job that waits."""
    from tfjob.jobs.report import took

    status = record.job.status
    runs = status.completion_time or record.state in ("Running", "Restarting")
    return took(status.start_time, status.completion_time) if status.start_time and runs else "-"


def _replicas(record: Record) -> str:
    """How many of each type: `1 chief, 2 worker`."""
    from collections import Counter

    from tfjob.plan.facts.tasks import desired

    counts = Counter(task.type.lower() for task in desired(record.job))
    return ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "-"
