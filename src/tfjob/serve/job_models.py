"""The models that the jobs of this machine have exported, and the models in a folder.

with open_state(home, write=False) as (home, store):
    found = find_models(home, store, "mnist", "default")      # a job, or a folder
    publish(newest(found.exports).folder, target)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tfjob.errors import NotFound
from tfjob.local.jobs import runs
from tfjob.local.jobs.places import Places, places_of
from tfjob.local.state.errors import Refusal
from tfjob.local.state.home import find_home
from tfjob.local.state.store import Run, open_state
from tfjob.serve.exports import Export, find_exports
from tfjob.serve.sources import find_job


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
            try:
                places = places_of(home, store, run)
            except (OSError, msgspec.DecodeError, Refusal):
                continue
            if places is not None:
                found.append(_models_of(run, places))
    return found


def find_models(name: str, namespace: str, environ: Mapping[str, str]) -> Models:
    """Return the models of a job or of a folder; a name without a slash is a job if there is one.

    Raises NotFound and InvalidRequest.
    """
    with open_state(find_home(environ), write=False) as (home, store):
        found = find_job(home, store, name, namespace)
    return _models_of(found.run, found.places) if found else _models_in(Path(name).expanduser())


def _models_in(folder: Path) -> Models:
    if not folder.is_dir():
        raise NotFound(f"there is no folder {folder}", "Name a job, or a folder with a SavedModel or its versions.")
    folder = folder.absolute()
    exports = find_exports([folder])
    is_one = [export.folder for export in exports] == [folder]  # a SavedModel, perhaps named with a number
    return Models(exports[0].name if is_one else folder.name, exports, [folder])


def _models_of(run: Run, places: Places) -> Models:
    return Models(run.name, find_exports(places.own), places.own, run.id, run.key.namespace, places)
