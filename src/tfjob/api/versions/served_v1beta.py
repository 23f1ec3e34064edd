"""Stored objects of v1beta2, v1beta1 and v1alpha2 and the v1 objects that say the same, as plain values.

Nothing is judged here, and anything may have the wrong type: what cannot be understood is left to the notes of
`served.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfjob.api.types import API_VERSION, ORIGIN
from tfjob.api.versions.spelling import Spelling, respelt, spelt_back
from tfjob.api.versions.status import ALPHA2_NAMES, BETA_FIELDS
from tfjob.api.versions.v1beta import POLICIES, current_name

Object = dict[str, Any]

DETAILS = "details"
"""The field of an older status that holds what only v1 says.

It is part of the status, and not of the annotation with the rest, because the operator remembers by it: the API server
keeps the status of an object that somebody replaces, but not its annotations.
"""
RUN_POLICY: Object = {"suspend": False}
"""v1's policies where nothing is said of them: what the API server makes of an empty one."""
_REPLICAS = "tfReplicaSpecs"


def plain(job: Object) -> tuple[Object, list[Spelling]]:
    """An object of these versions with one spelling of everything, and what was spelt otherwise."""
    found: list[Spelling] = []
    replicas = mapping(mapping(job.get("spec")).get(_REPLICAS))
    if not replicas:
        return job, found
    named = respelt(replicas, current_name, ["spec", _REPLICAS], found)
    return {**job, "spec": {**job["spec"], _REPLICAS: named}} if found else job, found


def written(job: Object, spelt: list[Spelling]) -> Object:
    """The object from its plain form."""
    return spelt_back(job, spelt)


def plain_v1(job: Object) -> tuple[Object, list[Spelling]]:
    """A v1 object for these versions, which spell everything as v1 does."""
    return job, []


def to_v1(job: Object) -> Object:
    """What v1 says where one of these versions says `job`, both in their plain form."""
    api_version = job["apiVersion"]
    made = {**job, "apiVersion": API_VERSION, "metadata": with_origin(job.get("metadata"), api_version)}
    if isinstance(spec := job.get("spec"), dict):
        policy = {**RUN_POLICY, **{name: spec[name] for name in POLICIES if name in spec}}
        replicas = {_REPLICAS: spec[_REPLICAS]} if _REPLICAS in spec else {}
        made["spec"] = {**replicas, "runPolicy": policy}
    if isinstance(status := job.get("status"), dict):
        names = status_names(api_version)
        said = {name: status[own] for name, own in names.items() if own in status}
        made["status"] = {**said, **mapping(status.get(DETAILS))}
    return made


def from_v1(job: Object, api_version: str) -> Object:
    """What one of these versions says where v1 says `job`, both in their plain form."""
    made = {**job, "apiVersion": api_version, "metadata": without_origin(job.get("metadata"), api_version)}
    if isinstance(spec := job.get("spec"), dict):
        policy = mapping(spec.get("runPolicy"))
        made["spec"] = {name: policy[name] for name in POLICIES if name in policy}
        if _REPLICAS in spec:
            made["spec"][_REPLICAS] = spec[_REPLICAS]
    if isinstance(status := job.get("status"), dict):
        names = status_names(api_version)
        said = {own: status[name] for name, own in names.items() if name in status}
        unsaid = {name: value for name, value in status.items() if name not in names}
        made["status"] = {**said, DETAILS: unsaid} if unsaid else said
    return made


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def with_origin(metadata: Any, api_version: str, **annotations: Any) -> Object:
    """Metadata that says in v1 which version the job was written for, unless it says so already."""
    given = mapping(metadata)
    return {**given, "annotations": {ORIGIN: api_version, **mapping(given.get("annotations")), **annotations}}


def without_origin(metadata: Any, api_version: str, *dropped: str) -> Object:
    """Metadata for an older version, which needs no annotation that says so."""
    kept = {
        key: text
        for key, text in mapping(mapping(metadata).get("annotations")).items()
        if key not in dropped and (key, text) != (ORIGIN, api_version)
    }
    others = {key: value for key, value in mapping(metadata).items() if key != "annotations"}
    return {**others, "annotations": kept} if kept else others


def status_names(api_version: str) -> dict[str, str]:
    """What one of these versions says of a status: its name there, by its name in v1."""
    names = ALPHA2_NAMES if api_version == "kubeflow.org/v1alpha2" else {}
    return {name: names.get(name, name) for name in BETA_FIELDS}
