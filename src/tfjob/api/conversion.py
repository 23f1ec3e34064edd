"""A manifest of any version as the hub type, and the way back from a place in the hub to the place in the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tfjob.api.objects import LAST_APPLIED
from tfjob.api.problems import Path, Problem
from tfjob.api.types import ORIGIN, PARALLELISM, REPLICA_TYPES, RUNTIME_ID, UNSAID, TFJob

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


def recorded_origin(api_version: str) -> dict[str, str]:
    return {ORIGIN: api_version}


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
