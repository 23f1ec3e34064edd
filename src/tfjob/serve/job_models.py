"""The models that the jobs of this machine have exported, and the models in a folder.

with open_state(home, write=False) as (home, store):
    found = find_models(home, store, "mnist", "default")      # a job, or a folder
    publish(newest(found.exports).folder, target)
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tfjob.api.types import TFJob
from tfjob.errors import InvalidRequest, NotFound
from tfjob.local.jobs import runs
from tfjob.local.jobs.places import Places, places_of
from tfjob.local.state.errors import Refusal
from tfjob.local.state.home import Home, find_home
from tfjob.local.state.store import Run, Store, open_state
from tfjob.serve.exports import Export, find_exports


@dataclass(frozen=True)
class Models:
    """Models in the folders of a job, or in a folder; `name` is that of the job or folder.

    `job` is the id of the job's run, and empty for a folder. `places` are only known for a job.
    """

    name: str
    exports: Sequence[Export]
    searched: Sequence[Path]
    job: str = ""
    namespace: str = ""
    places: Places | None = None

    def served_name(self, export: Export) -> str:
        """Return the usual name of a served model: that of its job or, in a folder, of the model."""
        return self.name if self.job else export.name


def list_models(namespace: str, environ: Mapping[str, str]) -> list[Models]:
    """Return the models of all jobs; jobs whose record or configuration cannot be read are left out."""
    found = []
    with open_state(find_home(environ), write=False) as (home, store):
        for run in runs.list_runs(store, namespace):
            if run.key.kind != TFJob.__name__:
                continue
            try:
                found.append(_models_of(home, store, run))
            except (OSError, msgspec.DecodeError, Refusal):
                continue
    return found


def find_models(name: str, namespace: str, environ: Mapping[str, str]) -> Models:
    """Return the models of a job or of a folder; a name without a slash is a job if there is one.

    Raises NotFound and InvalidRequest.
    """
    folder = Path(name).expanduser()
    if os.sep in name or name in (".", "..", "~"):
        return _models_in(folder)
    with open_state(find_home(environ), write=False) as (home, store):
        try:
            run = runs.find_run(store, name, namespace)
        except NotFound as error:
            if folder.is_dir():
                return _models_in(folder)
            raise NotFound(error.message, f"Name a job or a folder. {error.hint}".strip()) from None
        return _models_of(home, store, run)


def _models_in(folder: Path) -> Models:
    if not folder.is_dir():
        raise NotFound(f"there is no folder {folder}", "Name a job, or a folder with a SavedModel or its versions.")
    folder = folder.absolute()
    exports = find_exports([folder])
    is_one = [export.folder for export in exports] == [folder]  # a SavedModel, perhaps named with a number
    return Models(exports[0].name if is_one else folder.name, exports, [folder])


def _models_of(home: Home, store: Store, run: Run) -> Models:
    places = places_of(home, store, run)
    if places is None:
        raise InvalidRequest(f"{run.id} is a Deployment, which exports no model", "Name a job or a folder.")
    return Models(run.name, find_exports(places.own), places.own, run.id, run.key.namespace, places)
