"""The table of jobs that `ps` prints and `ps -w` keeps up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfjob.jobs.backend import Record
    from tfjob.jobs.sync_backend import SyncBackend


class Columns:
    """The columns of the table; `namespaces` and `runs` say whether it has several namespaces, and earlier runs."""

    def __init__(
        self, there: SyncBackend[Any], *, is_wide: bool = False, namespaces: bool = False, runs: bool = False
    ) -> None:
        self._there = there
        self._is_wide = is_wide
        self._namespaces = namespaces or is_wide
        self._runs = runs
        self.titles = [
            *(["NAMESPACE"] if self._namespaces else []),
            *("NAME", "STATE", "READY", "RESTARTS", "AGE"),
            *(["DURATION", "ATTEMPT", "REPLICAS"] if is_wide else []),
            "REASON",
            *(["NODES" if there.shared else "FOLDER"] if is_wide else []),
        ]

    def name(self, record: Record) -> str:
        """Return how a command line names a job: NAME, or NAME.1 or tfja/NAME if NAME alone is ambiguous."""
        return record.id if self._runs or "/" in record.id else record.name

    def rows(self, records: Sequence[Record]) -> list[list[str]]:
        return [self._row(record) for record in records]

    def _row(self, record: Record) -> list[str]:
        from tfjob.jobs.replicas import replica_counts
        from tfjob.jobs.report import age

        status: Any = record.status
        return [
            *([record.namespace] if self._namespaces else []),
            self.name(record),
            record.state,
            status.ready or "-",
            str(status.restarts),
            age(record.created),
            *([_duration(record), str(status.attempt or "-"), replica_counts(record.object)] if self._is_wide else []),
            record.reason or "-",
            *([self._where(record) or "-"] if self._is_wide else []),
        ]

    def _where(self, record: Record) -> str:
        """Return the folder of the job's record or, on a cluster, the nodes of its pods (a request per active job)."""
        if not self._there.shared:
            return record.folder
        replicas = () if record.is_finished else self._there.replicas(record)
        return ",".join(sorted({replica.node for replica in replicas if replica.node}))


def _duration(record: Record) -> str:
    from tfjob.jobs.report import took

    status = record.status
    runs = status.completion_time or record.state in ("Running", "Restarting")
    return took(status.start_time, status.completion_time) if status.start_time and runs else "-"
