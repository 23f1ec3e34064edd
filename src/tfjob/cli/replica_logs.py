"""Where the logs of a run lie: by replica and attempt, readable when all else is gone."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tfjob.api.names import child_name
from tfjob.local.log_view import Source
from tfjob.local.store import Run
from tfjob.plan.tasks import desired


class _Spec(msgspec.Struct):
    name: str
    containers: list[dict[str, object]] = []
    initContainers: list[dict[str, object]] = []


def sources_of(run: Run, replica: str | None, *, previous: bool) -> list[Source]:
    """The newest attempt of each replica (or the one before it), one source a container."""
    names = {child_name(run.job, task.type, task.index): task for task in desired(run.job)}
    by_pod: dict[str, list[Path]] = {}
    for folder in sorted((run.folder / "pods").glob("*/spec.json"), key=lambda path: path.stat().st_mtime_ns):
        by_pod.setdefault(folder.parent.name.rpartition(".")[0], []).append(folder.parent)
    found = []
    for name, folders in by_pod.items():
        label = names[name].name if name in names else name
        at = len(folders) - (2 if previous else 1)
        if at < 0 or (replica is not None and replica.partition("/")[0] not in (label, name)):
            continue
        found += _containers(folders[at], label, replica)
    return found


def _containers(folder: Path, label: str, replica: str | None) -> list[Source]:
    spec = msgspec.json.decode((folder / "spec.json").read_bytes(), type=_Spec)
    main = [str(container["name"]) for container in spec.containers]
    others = [str(container["name"]) for container in spec.initContainers]
    alone = len(main) == 1
    named = [(f"{label}/{name}", name) for name in others]
    named += [(label if alone else f"{label}/{name}", name) for name in main]
    wanted = replica is None or "/" not in replica
    return [
        Source(shown, folder / "logs" / name)
        for shown, name in named
        if (wanted or shown == replica) and (folder / "logs" / name).is_dir()
    ]
