"""The pods in the record of a run; they stay readable when the job, and even the database, is gone.

FOLDER/pods/NAME.UID8/spec.json                      its name and its containers
                     /status.json                    its last status, only for pods of this machine
                     /log.lost                       how many bytes of output are in no log, only on this machine
                     /logs/CONTAINER/RESTART/log     the output of one run of a container; see `log_files`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from tfjob.api.objects import Pod, PodStatus


class ContainerRun(NamedTuple):
    """One run of a container: the kubelet restarts containers in their pod."""

    pod: Pod
    container: str
    restart: int

    def folder(self, record: Path) -> Path:
        return pod_folder(record, self.pod) / "logs" / self.container / str(self.restart)


def pod_folder(record: Path, pod: Pod) -> Path:
    """Return the folder of a pod: its name and enough of its uid to distinguish attempts."""
    return record / "pods" / f"{pod.metadata.name}.{pod.metadata.uid[:8]}"


class _Container(msgspec.Struct):
    name: str


class _Written(PodStatus, frozen=True):
    """The status of a pod as its supervisor wrote it."""

    stopped: bool = False
    log_lost: int = 0


class _Spec(msgspec.Struct, rename="camel"):
    """The part of a pod's spec that is read; only pods of a cluster have `replica`."""

    name: str
    containers: list[_Container] = []
    init_containers: list[_Container] = []
    replica: str = ""


@dataclass(frozen=True)
class PodRecord:
    """One pod: its name, folder, containers and last status (None if unknown).

    `stopped` means that it was ended from outside; `replica` is empty if the name identifies the replica. `log_lost` is
    the number of bytes of its output that could not be written.
    """

    name: str
    folder: Path
    init_containers: list[str]
    containers: list[str]
    status: PodStatus | None
    stopped: bool = False
    replica: str = ""
    log_lost: int = 0


def history(run_folder: Path) -> Mapping[str, list[PodRecord]]:
    """Return the pods of a run by replica or, on this machine, by name; each list in the order of creation."""
    found: dict[str, list[PodRecord]] = {}
    specs = (run_folder / "pods").glob("*/spec.json")
    for path in sorted(specs, key=lambda path: path.stat().st_mtime_ns):
        record = read_pod(path.parent)
        found.setdefault(record.replica or record.name, []).append(record)
    return found


def read_pod(folder: Path) -> PodRecord:
    """Read the record of one pod. Raises FileNotFoundError if its spec is not written yet."""
    spec = msgspec.json.decode((folder / "spec.json").read_bytes(), type=_Spec)
    status = _status(folder / "status.json")
    return PodRecord(
        name=spec.name,
        folder=folder,
        init_containers=[container.name for container in spec.init_containers],
        containers=[container.name for container in spec.containers],
        status=status,
        stopped=status is not None and status.stopped,
        replica=spec.replica,
        log_lost=max(lost_output(folder), status.log_lost if status else 0),
    )


def lost_output(folder: Path) -> int:
    """Return how many bytes of a pod's output could not be written so far."""
    try:
        return int((folder / "log.lost").read_bytes())
    except (OSError, ValueError):
        return 0


def _status(file: Path) -> _Written | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Written)
    except FileNotFoundError:
        return None


def write_spec(record: Path, pod: Pod, replica: str) -> None:
    """Begin the record of a pod of a cluster, unless it exists."""
    folder = pod_folder(record, pod)
    if (folder / "spec.json").exists():
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    containers = {field: pod.spec.get(field) or [] for field in ("initContainers", "containers")}
    spec = msgspec.convert({"name": pod.metadata.name, "replica": replica, **containers}, _Spec)
    partial = folder / "spec.json.new"
    partial.write_bytes(msgspec.json.encode(spec))
    partial.replace(folder / "spec.json")
