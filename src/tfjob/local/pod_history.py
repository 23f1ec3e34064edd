"""Every pod that a run ever had, from what it left on disk: readable when the job, and even the database, is gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tfjob.api.objects import PodStatus


class _Container(msgspec.Struct):
    name: str


class _Spec(msgspec.Struct, rename="camel"):
    name: str
    containers: list[_Container] = []
    init_containers: list[_Container] = []


@dataclass(frozen=True)
class PodRecord:
    """One pod: its name, its folder, its containers, and how it stands or ended (None if it never started)."""

    name: str
    folder: Path
    init_containers: list[str]
    containers: list[str]
    status: PodStatus | None


def history(run_folder: Path) -> Mapping[str, list[PodRecord]]:
    """The pods of a run by name, each list in the order of their making."""
    found: dict[str, list[PodRecord]] = {}
    specs = (run_folder / "pods").glob("*/spec.json")
    for path in sorted(specs, key=lambda path: path.stat().st_mtime_ns):
        spec = msgspec.json.decode(path.read_bytes(), type=_Spec)
        record = PodRecord(
            name=spec.name,
            folder=path.parent,
            init_containers=[container.name for container in spec.init_containers],
            containers=[container.name for container in spec.containers],
            status=_status(path.parent / "status.json"),
        )
        found.setdefault(spec.name, []).append(record)
    return found


def _status(file: Path) -> PodStatus | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=PodStatus)
    except FileNotFoundError:
        return None
