"""Where the versions of a model are: in the storage of a job, or in a folder of this machine.

    source = local_source(backend, "mnist", state=home.path)      # or a folder, or for a cluster: cluster_source
    documents(Serving(name=name_for(source.model), model=source.model, base_path=source.base_path, ...))

A server needs a folder that contains the versions. A SavedModel without a version is first published as one.
"""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfjob.errors import InvalidRequest, NotFound
from tfjob.plan.build.job_storage import storage_of
from tfjob.serve.deploy import Volume

if TYPE_CHECKING:
    from tfjob.jobs.backend import Record
    from tfjob.jobs.sync_backend import SyncBackend

OUTPUT_FOLDER = "output"
"""The folder of a job's storage to which its programs write results."""
MODEL_FOLDER = posixpath.join(OUTPUT_FOLDER, "model")
"""The folder of a job's storage in which `tfjob.export` writes versions, unless the program names another one."""
GRAPH_FILES = ("saved_model.pb", "saved_model.pbtxt")
PUBLISHED = "models"
"""The folder of the state folder with the versions of models that had none."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A model: its default name, the folder with its versions as a server sees it, and the volume that it is in."""

    model: str
    base_path: str
    job: str = ""
    volume: Volume | None = None
    note: str = ""


def local_source(there: SyncBackend[Any], name: str, model_path: str, state: Path) -> Source:
    """Return the source for the name of a job, or for a folder; a name without a slash is a job if there is one.

    Raises NotFound, InvalidRequest.
    """
    record = _job(there, name)
    if record is None:
        return _folder_source(Path(name).expanduser().absolute(), state)
    storage = there.storage(record)
    if not storage:
        hint = "Wait until it has started, or name the folder of the model."
        raise InvalidRequest(f"{record.id} has no files yet", hint)
    if model_path:
        return _in_job(record, Path(storage, model_path), state)
    usual = Path(storage, MODEL_FOLDER)
    # tfjob.export writes there; other programs are searched, which takes longer.
    return _in_job(record, usual if _has_versions(usual) else _found(Path(storage), usual), state)


def _job(there: SyncBackend[Any], name: str) -> Record | None:
    if os.sep in name or name in (".", "..", "~"):
        return None
    try:
        record = there.find(name)
    except NotFound as error:
        if Path(name).is_dir():
            return None
        raise NotFound(error.message, f"Name a job or a folder. {error.hint}".strip()) from None
    return _training(record)


def _training(record: Record) -> Record:
    if record.is_server:
        raise InvalidRequest(f"{record.id} is a Deployment, which exports no model", "Name a job or a folder.")
    return record


def _in_job(record: Record, folder: Path, state: Path) -> Source:
    return Source(model=record.name, base_path=str(_versions_of(folder, state, record.name)), job=record.id)


def _found(storage: Path, usual: Path) -> Path:
    """Return the folder of the newest model that a job has written, or the usual one if there is none yet."""
    from tfjob.serve.exports import find_exports, newest  # imported late: it loads numpy

    exports = find_exports([storage / OUTPUT_FOLDER])
    if not exports:
        return usual
    chosen = newest(exports)
    return chosen.folder if chosen.version is None else chosen.base


def _folder_source(folder: Path, state: Path) -> Source:
    if not folder.is_dir():
        raise NotFound(f"there is no folder {folder}", "Name a job, or a folder with the versions of a model.")
    base = _versions_of(folder, state, folder.name)
    empty = "" if _has_versions(base) else f"{folder} contains no version of a model yet"
    return Source(model=folder.name, base_path=str(base), note=empty)


def _versions_of(folder: Path, state: Path, name: str) -> Path:
    """Return the folder with the versions of a model, for this folder, one version in it, or a SavedModel."""
    if not any((folder / file).is_file() for file in GRAPH_FILES):
        return folder
    if _is_version(folder.name):
        hint = f"Name the folder of its versions: {folder.parent}"
        raise InvalidRequest(f"{folder} is one version of a model", hint)
    return _published(folder, state / PUBLISHED / name)


def _published(folder: Path, base: Path) -> Path:
    """Publish a SavedModel as the next version, unless it is the last one that was published."""
    from tfjob.serve.exports import publish

    versions = [one for one in base.iterdir() if _is_version(one.name)] if base.is_dir() else []
    last = max(versions, key=lambda one: int(one.name), default=None)
    if last is None or _identity(last) != _identity(folder):
        publish(folder, base)
    return base


def _identity(folder: Path) -> list[tuple[str, int, int]]:
    """Return names, sizes and times of the files of a SavedModel, which a copy keeps."""
    files = (path for path in folder.rglob("*") if path.is_file())
    found = ((path, path.stat()) for path in files)
    return sorted((str(path.relative_to(folder)), stat.st_size, stat.st_mtime_ns) for path, stat in found)


def _has_versions(folder: Path) -> bool:
    return folder.is_dir() and any(_is_version(one.name) for one in folder.iterdir())


def _is_version(name: str) -> bool:
    return name.isascii() and name.isdigit()


def cluster_source(there: SyncBackend[Any], name: str, model_path: str) -> Source:
    """Return the source for a job of a cluster. Raises NotFound, InvalidRequest."""
    if os.sep in name or name in (".", ".."):
        raise _no_folder(name)
    try:
        record = _training(there.find(name))
    except NotFound:
        if Path(name).is_dir():
            raise _no_folder(name) from None
        raise
    storage = storage_of(record.job)
    if storage is None:
        text = f"{record.id} has no storage that a server could read"
        hint = "Add a volume named tfjob-data to its pods: a claim, to which they write the model."
        raise InvalidRequest(text, hint)
    volume, mount = storage
    if "emptyDir" in volume or mount.get("subPathExpr"):
        kind = "an emptyDir" if "emptyDir" in volume else "mounted with subPathExpr"
        raise InvalidRequest(f"the storage of {record.id} is {kind}, which other pods cannot read", "Use a claim.")
    path = posixpath.join(mount["mountPath"], model_path or MODEL_FOLDER)
    mounted = Volume(source=volume, mount_path=mount["mountPath"], sub_path=mount.get("subPath") or "")
    return Source(model=record.name, base_path=path, job=record.name, volume=mounted)


def _no_folder(name: str) -> InvalidRequest:
    text = f"{name} is a folder of this machine, which the pods of a cluster cannot read"
    return InvalidRequest(text, "Name a job of the cluster, or leave out --on to serve the folder on this machine.")
