"""The models that programs export: the SavedModels in folders, their versions, and how to publish a new version.

    latest = newest(find_exports(folders))
    publish(latest.folder, Path("/models/mnist"))      # as the next version, after a check in the serving engine

A SavedModel in a folder whose name is a whole number is that version of the model in the folder above. A SavedModel in
any other folder has no version: what `model.export` of Keras writes, for example.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tfjob.errors import InvalidRequest, NotFound
from tfjob.serve import savedmodel
from tfjob.serve.check import check
from tfjob.serve.savedmodel import GRAPH, INDEX, INIT, InvalidModel, SavedModel

RECORD = Path("assets.extra", "tfjob.json")
"""What `tfjob.export` records in a version folder (`programs/tfjob_export`)."""
DEEPEST = 6
"""Levels of folders in which models are searched."""
UNFINISHED = ("unfinished-", "temp-", "tmp-")
"""How programs name the folder of a model that they are writing; TensorFlow's exporters begin with `temp-`."""
MOST_RACES = 100


@dataclass(frozen=True, slots=True)
class Export:
    """A SavedModel, perhaps incomplete, that a program has written. The folder `base` contains the versions."""

    folder: Path
    base: Path
    version: int | None = None

    @property
    def name(self) -> str:
        return self.base.name

    @property
    def step(self) -> int | None:
        """The training step, if the program has recorded it."""
        with suppress(OSError, ValueError, AttributeError):
            step = json.loads((self.folder / RECORD).read_text()).get("step")
            return step if isinstance(step, int) else None
        return None


def export_at(folder: Path) -> Export:
    """Return a SavedModel's folder as an export."""
    version = version_of(folder.name)
    return Export(folder, folder if version is None else folder.parent, version)


def version_of(name: str) -> int | None:
    """Return the version that a folder with this name contains; None if it is not a whole number."""
    return int(name) if name.isdecimal() and name.isascii() else None


def find_exports(folders: Iterable[Path]) -> list[Export]:
    """Return the SavedModels in folders, by path of the model and version."""
    found = {export.folder: export for folder in folders for export in _search(folder)}
    return sorted(found.values(), key=lambda one: (str(one.base), one.version or 0))


def _search(folder: Path) -> Iterator[Export]:
    for place, folders, files in os.walk(folder):
        path = Path(place)
        if GRAPH in files or (path / INDEX).is_file():
            folders.clear()
            yield export_at(path)
        depth = len(path.relative_to(folder).parts)
        folders[:] = [one for one in folders if depth < DEEPEST and not one.startswith((".", *UNFINISHED))]


def newest(exports: Sequence[Export], model: str = "") -> Export:
    """Return the highest version of the only model, or of the named one. Raises NotFound and InvalidRequest."""
    names = sorted({one.name for one in exports})
    if not exports:
        raise NotFound("there is no SavedModel", "Export the model in the program: tfjob.export(model)")
    if model and model not in names:
        raise NotFound(f"there is no model '{model}'", f"The models are {', '.join(names)}.")
    chosen = [one for one in exports if not model or one.name == model]
    if len({one.base for one in chosen}) > 1:
        places = ", ".join(sorted({str(one.base) for one in chosen}))
        raise InvalidRequest(f"there are several models: {places}", "Choose one: --model NAME, or name its folder.")
    return max(chosen, key=lambda one: one.version or 0)


def read(folder: Path) -> SavedModel:
    """Return what a SavedModel contains for users. Raises InvalidRequest if it is incomplete, with what is missing."""
    try:
        model = savedmodel.read(folder)
    except InvalidModel as error:
        raise InvalidRequest(str(error).rstrip("."), "Export the model again.") from None
    return replace(model, signatures={name: one for name, one in model.signatures.items() if name != INIT})


# Publishing.


def publish(source: Path, base: Path, version: int | None = None) -> Path:
    """Copy a SavedModel to the folder of a version of `base`, and return it; without a number, to the next free one.

    The copy gets its name after it is complete, on disk, and checked. Raises InvalidRequest; then there is no version.
    """
    model = read(source)
    if version is not None and (taken := _taken(base, version)):
        raise InvalidRequest(
            f"{taken} already exists", "Choose another number, or omit --version for the next free one."
        )
    is_new = not base.exists()
    base.mkdir(parents=True, exist_ok=True)
    unfinished = base / f".publishing-{os.getpid()}"
    try:
        shutil.rmtree(unfinished, ignore_errors=True)  # of a killed process with the same number
        shutil.copytree(source, unfinished)
        check(unfinished, list(model.signatures.values()), shown=source)
        flush_to_disk(unfinished)
        final = _rename(unfinished, base, version)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        if is_new:
            with suppress(OSError):  # another process has added a version
                base.rmdir()
        raise
    _flush(base)
    return final


def next_version(base: Path) -> int:
    """Return one more than the highest version in a folder."""
    return max((version for version, _ in _versions(base)), default=0) + 1


def _versions(base: Path) -> list[tuple[int, Path]]:
    found = [(version_of(path.name), path) for path in base.iterdir()] if base.is_dir() else []
    return [(version, path) for version, path in found if version is not None]


def _taken(base: Path, version: int) -> Path | None:
    return next((path for number, path in _versions(base) if number == version), None)


def _rename(unfinished: Path, base: Path, version: int | None) -> Path:
    """Rename a folder to its version; without a number, try the next one again if another process takes it."""
    for _ in range(MOST_RACES):
        final = base / str(next_version(base) if version is None else version)
        try:
            # Unlike `mv`, this fails if the folder exists, unless it is empty.
            return unfinished.rename(final)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            if version is not None:
                raise InvalidRequest(f"{final} already exists", "Choose another number.") from None
    raise InvalidRequest(f"other processes keep adding versions to {base}", "Try again later.")


def flush_to_disk(folder: Path) -> None:
    """Flush a folder and everything in it: after a power failure, a folder that has its final name is complete."""
    for path in [folder, *folder.rglob("*")]:
        _flush(path)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
