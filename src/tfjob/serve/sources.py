"""Where the versions of a model are: in the folders of a job, or in a folder of this machine.

    found = find_job(home, store, "mnist", "default")      # None if the name means a folder
    source = job_source(found.places, found.run.name, "", home.path)
    documents(Serving(name=name_for(source.model), model=source.model, base_path=source.base_path, ...))

A server needs a folder that contains the versions. A SavedModel without a version is first published as one.
"""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfjob.api.types import TFJob
from tfjob.errors import InvalidRequest, NotFound
from tfjob.plan.build.job_storage import OUTPUT, storage_of
from tfjob.serve.deploy import Volume

if TYPE_CHECKING:
    from tfjob.local.jobs.places import Places
    from tfjob.local.state.home import Home
    from tfjob.local.state.store import Run, Store

MODEL_FOLDER = "model"
"""The folder in TFJOB_OUTPUT_DIR in which `tfjob.export` writes versions, unless the program names another one."""
OUTPUT_FOLDER = "output"
"""What TFJOB_OUTPUT_DIR is in the storage of a job, unless its manifest sets it."""
GRAPH_FILES = ("saved_model.pb", "saved_model.pbtxt")
ONLY_JOBS = "Name a job or a folder."
PUBLISHED = "models"
"""The folder of the state folder with the versions of models that had none."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A model: its default name, the folder with its versions as a server sees it, and the volume that it is in."""

    model: str
    base_path: str
    volume: Volume | None = None

    @property
    def note(self) -> str:
        """What a user should know before the server starts."""
        is_here = self.volume is None
        return f"{self.base_path} contains no version of a model yet" if is_here and not self._has_versions() else ""

    def _has_versions(self) -> bool:
        return _has_versions(Path(self.base_path))


@dataclass(frozen=True)
class FoundJob:
    """A job of this machine, and where its program writes."""

    run: Run
    places: Places


def is_path(name: str) -> bool:
    """Tell whether a name means a folder even if there is a job with this name."""
    return os.sep in name or name in (".", "..", "~")


def find_job(home: Home, store: Store, name: str, namespace: str, *, latest_of_all: bool = False) -> FoundJob | None:
    """Return the job that a name means, or None if it means a folder: one with a slash, or one without such a job.

    Raises NotFound if there is neither, and InvalidRequest for a Deployment or a job without replicas.
    """
    from tfjob.local.jobs.places import places_of
    from tfjob.local.jobs.runs import find_run

    if is_path(name):
        return None
    try:
        run = find_run(store, name, namespace, latest_of_all=latest_of_all)
    except NotFound as error:
        if Path(name).is_dir():
            return None
        raise NotFound(error.message, f"{ONLY_JOBS} {error.hint}".strip()) from None
    places = places_of(home, store, run)
    if places is None:
        raise InvalidRequest(f"{run.id} is not a job that could export a model", ONLY_JOBS)
    return FoundJob(run, places)


def job_source(places: Places, job: str, model_path: str, state: Path) -> Source:
    """Return the source for a job of this machine; its model may not exist yet. Raises InvalidRequest."""
    output = places.variables.get(OUTPUT, "")
    if model_path or not output or "://" in output:
        folder = _named(places, job, model_path)
    else:
        usual = Path(output, MODEL_FOLDER)
        # tfjob.export writes there. To search all folders takes longer.
        folder = usual if _has_versions(usual) else _newest(places, usual)
    return Source(model=job, base_path=str(_versions_of(folder, state / PUBLISHED / job)))


def folder_source(folder: Path, state: Path) -> Source:
    """Return the source for a folder of this machine. Raises NotFound, InvalidRequest."""
    if not folder.is_dir():
        raise NotFound(f"there is no folder {folder}", "Name a job, or a folder with the versions of a model.")
    return Source(model=folder.name, base_path=str(_versions_of(folder, state / PUBLISHED / folder.name)))


def cluster_source(job: TFJob, model_path: str) -> Source:
    """Return the source for a job of a cluster, whose storage the server mounts. Raises InvalidRequest."""
    name, storage = job.metadata.name, storage_of(job)
    if storage is None:
        hint = "Add a volume named tfjob-data to its pods: a claim, to which they write the model."
        raise InvalidRequest(f"{name} has no storage that a server could read", hint)
    volume, mount = storage
    if "emptyDir" in volume or mount.get("subPathExpr"):
        kind = "an emptyDir" if "emptyDir" in volume else "mounted with subPathExpr"
        raise InvalidRequest(f"the storage of {name} is {kind}, which other pods cannot read", "Use a claim.")
    path = posixpath.join(mount["mountPath"], model_path or posixpath.join(OUTPUT_FOLDER, MODEL_FOLDER))
    mounted = Volume(source=volume, mount_path=mount["mountPath"], sub_path=mount.get("subPath") or "")
    return Source(model=name, base_path=path, volume=mounted)


def _named(places: Places, job: str, model_path: str) -> Path:
    if not places.own:
        hint = "Name the folder of the model: tfjob serve FOLDER"
        raise InvalidRequest(f"{job} has no storage folder on this machine", hint)
    return places.own[0] / model_path


def _newest(places: Places, usual: Path) -> Path:
    """Return the folder of the newest model that a job has written, or the usual one if there is none yet."""
    from tfjob.serve.exports import find_exports, newest  # imported late: it loads numpy

    exports = find_exports(places.own)
    if not exports:
        return usual
    try:
        chosen = newest(exports)
    except InvalidRequest as error:
        raise InvalidRequest(error.message, "Choose one: --model-path PATH, or name its folder.") from None
    return chosen.folder if chosen.version is None else chosen.base


def _versions_of(folder: Path, published: Path) -> Path:
    """Return the folder with the versions of a model; publish it there if `folder` is a SavedModel without a version.

    Raises InvalidRequest for a folder that is one version of several.
    """
    if not any((folder / file).is_file() for file in GRAPH_FILES):
        return folder
    if _is_version(folder.name):
        raise InvalidRequest(f"{folder} is one version of a model", f"Name the folder of its versions: {folder.parent}")
    from tfjob.serve.exports import publish  # imported late: it loads numpy

    versions = [one for one in published.iterdir() if _is_version(one.name)] if published.is_dir() else []
    last = max(versions, key=lambda one: int(one.name), default=None)
    if last is None or _identity(last) != _identity(folder):
        publish(folder, published)
    return published


def _identity(folder: Path) -> list[tuple[str, int, int]]:
    """Return names, sizes and times of the files of a SavedModel, which a copy keeps."""
    files = ((path, path.stat()) for path in folder.rglob("*") if path.is_file())
    return sorted((str(path.relative_to(folder)), stat.st_size, stat.st_mtime_ns) for path, stat in files)


def _has_versions(folder: Path) -> bool:
    return folder.is_dir() and any(_is_version(one.name) for one in folder.iterdir())


def _is_version(name: str) -> bool:
    return name.isascii() and name.isdigit()
