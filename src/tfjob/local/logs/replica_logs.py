"""Where the logs of a run lie, by replica and attempt: on disk, readable when all else is gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tfjob.api.names import child_name
from tfjob.local.logs.reader import Source, restarts
from tfjob.local.state.pod_history import PodRecord, history
from tfjob.local.state.store import Run
from tfjob.plan.facts.tasks import desired


class Earlier(NamedTuple):
    """A container's run before the last: in the same pod (`in_place`), or the last one of the pod before it."""

    source: Source
    in_place: bool


def sources_of(run: Run, replica: str | None) -> list[Source]:
    """The newest attempt of each replica that `replica` means (all, one, or one container: `worker-0/sidecar`)."""
    return [source for _, records in _pods(run, replica) for source in _containers(run, records[-1], replica)]


def earlier_sources(run: Run, replica: str | None) -> list[Earlier]:
    """The attempt before the newest, of each container that has one."""
    found = []
    for _, records in _pods(run, replica):
        older = {source.replica: source for source in _containers(run, records[-2], replica)} if records[1:] else {}
        for source in _containers(run, records[-1], replica):
            if len(restarts(source.folder)) > 1:
                found.append(Earlier(source, in_place=True))
            elif source.replica in older:
                found.append(Earlier(older[source.replica], in_place=False))
    return found


def _pods(run: Run, replica: str | None) -> Iterator[tuple[str, list[PodRecord]]]:
    labels = _labels(run)
    for name, records in history(run.folder).items():
        if replica is None or replica.partition("/")[0] in (labels.get(name), name):
            yield name, records


def _containers(run: Run, record: PodRecord, replica: str | None) -> list[Source]:
    label = _labels(run).get(record.name, record.name)
    container = replica.partition("/")[2] if replica else ""
    alone = len(record.containers) == 1
    named = [(f"{label}/{name}", name) for name in record.init_containers]
    named += [(label if alone else f"{label}/{name}", name) for name in record.containers]
    return [
        Source(shown, record.folder / "logs" / name)
        for shown, name in named
        if container in ("", name) and (record.folder / "logs" / name).is_dir()
    ]


def _labels(run: Run) -> dict[str, str]:
    return {child_name(run.job, task.type, task.index): task.name for task in desired(run.job)}
