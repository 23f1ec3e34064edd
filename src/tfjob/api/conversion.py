"""Helpers that the conversions of all versions share: metadata, the user's paths, and the spelling of names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tfjob.api.objects import LAST_APPLIED
from tfjob.api.problems import Path, Problem
from tfjob.api.types import ORIGIN, PARALLELISM, REPLICA_TYPES, RUNTIME_ID, UNSAID, TFJob

Spelling = tuple[list[str], str, str]
"""The path of a mapping, one of its names in our spelling, and the same name in the user's spelling."""
METADATA = {
    "name": "string",
    "generateName": "string",
    "namespace": "string",
    "labels": "{string}",
    "annotations": "{string}",
    # Written by API servers. These fields are accepted, so that the output of `kubectl get -o yaml` runs, and ignored.
    **dict.fromkeys(("clusterName", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp"), "any"),
    **dict.fromkeys(("finalizers", "generation", "initializers", "managedFields"), "any"),
    **dict.fromkeys(("ownerReferences", "resourceVersion", "selfLink", "uid"), "any"),
}
"""The definition of a job's metadata."""


@dataclass(frozen=True)
class Conversion:
    """A job as the hub type without defaults, and the problems that the rules of its version find.

    `moved` pairs path prefixes of the hub with those of the user's version. `renamed` holds the user's spelling of
    fields. `problems` have the paths of the user's version.
    """

    job: TFJob
    problems: list[Problem]
    moved: tuple[tuple[Path, Path], ...] = ()
    renamed: Mapping[Path, str] = field(default_factory=dict)

    def user_path(self, hub_path: Path) -> Path:
        """Return the path in the user's manifest of the field at `hub_path` of the job."""
        path = hub_path
        fitting = [pair for pair in self.moved if hub_path[: len(pair[0])] == pair[0]]
        if fitting:
            hub, own = max(fitting, key=lambda pair: len(pair[0]))
            path = own + hub_path[len(hub) :]
        return tuple(self.renamed.get(path[: index + 1], part) for index, part in enumerate(path))


def own_metadata(value: Mapping[str, Any], **annotations: str) -> dict[str, Any]:
    """Return the user's part of the metadata, without fields of an API server, plus `annotations`."""
    given: Mapping[str, Any] = value.get("metadata", {})
    kept = {key: given[key] for key in ("name", "namespace", "labels") if key in given}
    noted = {key: text for key, text in given.get("annotations", {}).items() if key != LAST_APPLIED}
    return {**kept, "annotations": {**noted, **annotations}}


def hub_job(value: Mapping[str, Any], **annotations: str) -> TFJob:
    """Return a checked v1 value as the hub type, with these annotations in addition to the user's."""
    return msgspec.convert({"metadata": own_metadata(value, **annotations), "spec": value.get("spec", {})}, TFJob)


def written_metadata(job: TFJob, *dropped: str) -> dict[str, Any]:
    """Return a job's metadata for a version other than v1, without our annotations and those in `dropped`."""
    metadata = own_metadata({"metadata": msgspec.to_builtins(job.metadata)})
    ours = (ORIGIN, RUNTIME_ID, PARALLELISM, UNSAID, *dropped)  # UNSAID was applied when the job was read
    noted = {key: text for key, text in metadata.pop("annotations").items() if key not in ours}
    return {**metadata, "annotations": noted} if noted else metadata


def left_out(spec: Mapping[str, Any], fields: Collection[str], policies: Collection[str], to: str) -> list[Problem]:
    """Return a problem for each field of a v1 spec that the version `to` does not have."""
    paths = [f"spec.{name}" for name in spec if name not in fields]
    paths += [f"spec.runPolicy.{name}" for name in spec.get("runPolicy", {}) if name not in policies]
    return [Problem(path, f"is left out: {to} has no such field") for path in paths]


def canonical_type(name: str) -> str:
    """Return `Worker` for `worker`, `WORKER` or `Worker`; return an unknown name unchanged."""
    return next((known for known in REPLICA_TYPES if known.lower() == name.lower()), name)


def respelled_types(names: Mapping[str, Any]) -> tuple[tuple[Path, Path], ...]:
    """Return (canonical path, user's path) of each replica type that the user spells differently."""
    base: Path = ("spec", "tfReplicaSpecs")
    return tuple(((*base, canonical_type(name)), (*base, name)) for name in names if canonical_type(name) != name)


def respell(
    given: Mapping[str, Any],
    own_name: Callable[[str], str],
    path: list[str],
    found: list[Spelling],
    *,
    users_first: bool = False,
) -> dict[str, Any]:
    """Rename keys to our spelling and add each change to `found`; a key stays if our name for it is taken.

    With `users_first`, a value under the user's spelling swaps names with the value that already has our name.
    """
    ours: dict[str, str] = {}
    for key in sorted(given):
        name = own_name(key) or key
        is_free = name not in given or (users_first and given[key] is not None)
        if name != key and is_free and name not in ours.values():
            ours[key] = name
            found.append((path, name, key))
    theirs = {name: key for key, name in ours.items()}
    return {ours.get(key) or theirs.get(key, key): value for key, value in given.items()}


def restore_spelling(value: dict[str, Any], spellings: Iterable[Spelling]) -> dict[str, Any]:
    for path, name, written in spellings:
        value = dict(_renamed(value, path, name, written))
    return value


def _renamed(value: Any, path: list[str], name: str, written: str) -> Any:
    if not isinstance(value, dict):
        return value
    if path:
        step, *rest = path
        return {**value, step: _renamed(value[step], rest, name, written)} if step in value else value
    if name not in value:
        return value
    swapped = {name: written, written: name}
    return {swapped.get(key, key): item for key, item in value.items()}
