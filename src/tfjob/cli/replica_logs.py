"""Where the logs of a run lie, by replica and attempt: on disk, readable when all else is gone."""

from __future__ import annotations

from tfjob.api.names import child_name
from tfjob.local.log_view import Source
from tfjob.local.pod_history import PodRecord, history
from tfjob.local.store import Run
from tfjob.plan.tasks import desired


def sources_of(run: Run, replica: str | None, *, previous: bool) -> list[Source]:
    """The newest attempt of each replica (or the one before it), one source a container."""
    labels = {child_name(run.job, task.type, task.index): task.name for task in desired(run.job)}
    found = []
    for name, records in history(run.folder).items():
        label = labels.get(name, name)
        at = len(records) - (2 if previous else 1)
        if at >= 0 and (replica is None or replica.partition("/")[0] in (label, name)):
            found += _containers(records[at], label, replica)
    return found


def _containers(record: PodRecord, label: str, replica: str | None) -> list[Source]:
    alone = len(record.containers) == 1
    named = [(f"{label}/{name}", name) for name in record.init_containers]
    named += [(label if alone else f"{label}/{name}", name) for name in record.containers]
    every = replica is None or "/" not in replica
    return [
        Source(shown, record.folder / "logs" / name)
        for shown, name in named
        if (every or shown == replica) and (record.folder / "logs" / name).is_dir()
    ]
