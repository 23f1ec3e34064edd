"""The table of jobs that `ps` prints and `ps -w` keeps up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tfjob.jobs.backend import Record
    from tfjob.jobs.sync_backend import SyncBackend

ONLY_WIDE = ("DURATION", "ATTEMPT", "REPLICAS", "NODES", "FOLDER")


class Columns:
    """The columns of the table; `namespaces` and `runs` say whether it has several namespaces, and earlier runs."""

    def __init__(
        self, there: SyncBackend[Any], *, is_wide: bool = False, namespaces: bool = False, runs: bool = False
    ) -> None:
        from tfjob.jobs.replicas import replica_counts
        from tfjob.jobs.report import age

        self._there = there
        self._runs = runs
        cells: dict[str, Callable[[Record], str]] = {
            "NAMESPACE": lambda record: record.namespace,
            "NAME": self.name,
            "STATE": lambda record: record.state,
            "READY": lambda record: record.status.ready,
            "RESTARTS": lambda record: str(record.status.restarts),
            "AGE": lambda record: age(record.created),
            "DURATION": _duration,
            "ATTEMPT": lambda record: str(record.status.attempt or ""),
            "REPLICAS": lambda record: replica_counts(record.object),
            "REASON": lambda record: record.reason,
            "NODES" if there.shared else "FOLDER": self._where,
        }
        left_out = () if is_wide else ONLY_WIDE if namespaces else ("NAMESPACE", *ONLY_WIDE)
        self._cells = {title: cell for title, cell in cells.items() if title not in left_out}
        self.titles = list(self._cells)

    def name(self, record: Record) -> str:
        """Return how a command line names a job: NAME, or NAME.1 or tfja/NAME if NAME alone is ambiguous."""
        return record.id if self._runs or "/" in record.id else record.name

    def rows(self, records: Sequence[Record]) -> list[list[str]]:
        return [[cell(record) or "-" for cell in self._cells.values()] for record in records]

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
    return took(status.start_time, status.completion_time) if status.start_time and runs else ""
