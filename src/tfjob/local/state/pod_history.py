"""Every pod that a run ever had, from what it left on disk: readable when the job, and even the database, is gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tfjob.api.objects import PodStatus


class _Container(msgspec.Struct):
    name: str


class _Written(PodStatus, frozen=True):
    """What its supervisor wrote of a pod."""

    stopped: bool = False


class _Spec(msgspec.Struct, rename="camel"):
    name: str
    containers: list[_Container] = []
    init_containers: list[_Container] = []


@dataclass(frozen=True)
class PodRecord:
    """One pod: its name, its folder, its containers, and how it stands or ended (None if it never started).

    `stopped` says that it did not end by itself.
    """

    name: str
    folder: Path
    init_containers: list[str]
    containers: list[str]
    status: PodStatus | None
    stopped: bool = False


def history(run_folder: Path) -> Mapping[str, list[PodRecord]]:
    """The pods of a run by name, each list in the order of their making."""
    found: dict[str, list[PodRecord]] = {}
    specs = (run_folder / "pods").glob("*/spec.json")
    for path in sorted(specs, key=lambda path: path.stat().st_mtime_ns):
        spec = msgspec.json.decode(path.read_bytes(), type=_Spec)
        status = _status(path.parent / "status.json")
        record = PodRecord(
            name=spec.name,
            folder=path.parent,
            init_containers=[container.name for container in spec.init_containers],
            containers=[container.name for container in spec.containers],
            status=status,
            stopped=status is not None and status.stopped,
        )
        found.setdefault(spec.name, []).append(record)
    return found


def _status(file: Path) -> _Written | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Written)
    except FileNotFoundError:
        return None
