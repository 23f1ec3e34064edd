"""What the conversions of all versions share: the job as the hub type, the user's places, the spelling of names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tfjob.api.objects import LAST_APPLIED
from tfjob.api.problems import Path, Problem
from tfjob.api.types import ORIGIN, PARALLELISM, REPLICA_TYPES, RUNTIME_ID, UNSAID, TFJob

Spelling = tuple[list[str], str, str]
"""The path of a mapping, a name in it as we spell it, and as the user did."""
METADATA = {
    "name": "string",
    "generateName": "string",
    "namespace": "string",
    "labels": "{string}",
    "annotations": "{string}",
    # Written by the API server; accepted, so that `kubectl get -o yaml` output runs again, and not read.
    "clusterName": "any",
    "creationTimestamp": "any",
    "deletionGracePeriodSeconds": "any",
    "deletionTimestamp": "any",
    "finalizers": "any",
    "generation": "any",
    "initializers": "any",
    "managedFields": "any",
    "ownerReferences": "any",
    "resourceVersion": "any",
    "selfLink": "any",
    "uid": "any",
}
"""The definition of a job's own metadata."""


@dataclass(frozen=True)
class Conversion:
    """A job as the hub type, as written (no defaults), with the problems that its own version's rules find.

    `moved` pairs a place in the hub with the place in the user's version, both as prefixes; `renamed` holds the
    user's spelling of fields. Paths in `problems` are the user's.
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
    """Return what the user wrote about the object, without what an API server added, and with our `annotations`."""
    given: Mapping[str, Any] = value.get("metadata", {})
    kept = {key: given[key] for key in ("name", "namespace", "labels") if key in given}
    noted = {key: text for key, text in given.get("annotations", {}).items() if key != LAST_APPLIED}
    return {**kept, "annotations": {**noted, **annotations}}


def hub_job(value: Mapping[str, Any], api_version: str) -> TFJob:
    """Return a checked v1 value as the hub type; it records the version that the user wrote."""
    return msgspec.convert(
        {"metadata": own_metadata(value, **{ORIGIN: api_version}), "spec": value.get("spec", {})}, TFJob
    )


def written_metadata(job: TFJob, *said: str) -> dict[str, Any]:
    """Return a job's metadata for a version other than v1, without our annotations and those of `said`.

    The notes that a cluster keeps for other versions were applied when the job was read, and no longer fit.
    """
    metadata = own_metadata({"metadata": msgspec.to_builtins(job.metadata)})
    dropped = (ORIGIN, RUNTIME_ID, PARALLELISM, UNSAID, *said)
    noted = {key: text for key, text in metadata.pop("annotations").items() if key not in dropped}
    return {**metadata, "annotations": noted} if noted else metadata


def canonical_type(name: str) -> str:
    """Return `worker`, `WORKER` or `Worker` as `Worker`; an unknown name unchanged."""
    return next((known for known in REPLICA_TYPES if known.lower() == name.lower()), name)


def respelt_types(names: Mapping[str, Any]) -> tuple[tuple[Path, Path], ...]:
    """Return (canonical path, user's path) of each replica type that the user spells differently."""
    base: Path = ("spec", "tfReplicaSpecs")
    return tuple(((*base, canonical_type(name)), (*base, name)) for name in names if canonical_type(name) != name)


def respelt(
    given: Mapping[str, Any],
    own_name: Callable[[str], str],
    path: list[str],
    found: list[Spelling],
    *,
    users_first: bool = False,
) -> dict[str, Any]:
    """Rename keys to our names and note each change in `found`; a key stays if our name is taken or there is none.

    With `users_first` the user's spelling takes our name from a value that has it; that value gets the user's name.
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


def spelt_back(value: dict[str, Any], spellings: Iterable[Spelling]) -> dict[str, Any]:
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
