"""`kubeflow.org/v1beta2`, `v1beta1` and `v1alpha2` TFJob: v1 with the run policy's fields directly under `spec`.

`to_hub` and `from_hub` convert manifests and report every problem. `to_v1` and `from_v1` convert stored objects, as
plain values. They judge nothing, and any value may have the wrong type: what they cannot understand is left to the
notes of `round_trip`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

import msgspec

from tfjob.api.conversion import Conversion, own_metadata, recorded_origin, respelt_types, written_metadata
from tfjob.api.problems import Path, Problem
from tfjob.api.schema.checker import Definition, Schema, pod_definitions
from tfjob.api.types import API_VERSION, EVALUATOR, KIND, MASTER, ORIGIN, ChiefReference, TFJob
from tfjob.api.versions import v1
from tfjob.api.versions.spelling import Spelling, respelt, spelt_back
from tfjob.api.versions.status import ALPHA2_NAMES, BETA_FIELDS

VERSIONS = ("kubeflow.org/v1beta2", "kubeflow.org/v1beta1", "kubeflow.org/v1alpha2")
POLICIES: Definition = {
    "cleanPodPolicy": "string",
    "ttlSecondsAfterFinished": "int",
    "activeDeadlineSeconds": "int",
    "backoffLimit": "int",
}
"""The fields that v1 has under `spec.runPolicy`."""
SPEC: Definition = {"tfReplicaSpecs": "{ReplicaSpec}", **POLICIES}
_LATER_POLICIES = ("activeDeadlineSeconds", "backoffLimit")
_EVALUATOR_AT_FIRST = "Eval"
Object = dict[str, Any]
DETAILS = "details"
"""The field of an older status that holds what only v1 says.

It is part of the status, and not of the annotation with the rest, because the operator remembers by it: the API server
keeps the status of an object that somebody replaces, but not its annotations.
"""
RUN_POLICY: Object = {"suspend": False}
"""v1's policies where nothing is said of them: what the API server makes of an empty one."""
_REPLICAS = "tfReplicaSpecs"


@cache
def schema() -> Schema:
    """What such a manifest may hold."""
    definitions: dict[str, Definition] = {
        "TFJob": v1.DEFINITIONS["TFJob"],
        "Metadata": v1.DEFINITIONS["Metadata"],
        "TFJobSpec": SPEC,
        "ReplicaSpec": v1.REPLICA_SPEC,
    }
    newer = v1.DEFINITIONS["TFJobSpec"].keys() - definitions["TFJobSpec"].keys()
    hints = {("TFJobSpec", name): f"it needs apiVersion: {API_VERSION}" for name in newer}
    hints["TFJobSpec", "runPolicy"] = "in this version its fields stand directly under spec"
    return Schema({**pod_definitions(), **definitions}, hints=hints)


def to_hub(manifest: Mapping[str, Any], filled: Collection[Path] = ()) -> Conversion:
    """Read a manifest of one of these versions."""
    checked = schema().check(manifest, "TFJob", filled)
    given = checked.value.get("spec", {})
    replicas = given.get("tfReplicaSpecs", {})
    spec: dict[str, Any] = {
        "tfReplicaSpecs": {current_name(name): replica for name, replica in replicas.items()},
        "runPolicy": {name: given[name] for name in POLICIES if name in given},
    }
    origin = recorded_origin(manifest["apiVersion"])
    job = msgspec.convert({"metadata": own_metadata(checked.value, **origin), "spec": spec}, TFJob)
    moved: tuple[tuple[Path, Path], ...] = (
        *((("spec", "runPolicy", name), ("spec", name)) for name in POLICIES),
        *respelt_types(replicas),
    )
    if _EVALUATOR_AT_FIRST in replicas:
        base: Path = ("spec", "tfReplicaSpecs")
        moved += (((*base, EVALUATOR), (*base, _EVALUATOR_AT_FIRST)),)
    return Conversion(job, checked.problems, moved, checked.renamed)


def from_hub(job: TFJob, api_version: str) -> tuple[dict[str, Any], list[Problem]]:
    """The job as a manifest of one of these versions, and what they cannot say."""
    value = msgspec.to_builtins(job)
    spec, policy = value["spec"], value["spec"].get("runPolicy", {})
    written = {name: policy[name] for name in POLICIES if name in policy}
    problems = [
        Problem(f"spec.{name}", f"{api_version} has no such field: it is left out")
        for name in spec
        if name not in ("tfReplicaSpecs", "runPolicy") and not (name == "terminationPolicy" and _usual(job))
    ]
    problems += [
        Problem(f"spec.runPolicy.{name}", f"{api_version} has no such field: it is left out")
        for name in policy
        if name not in POLICIES
    ]
    if api_version != VERSIONS[0]:
        problems += [
            Problem(f"spec.runPolicy.{name}", f"operators of {api_version} ignore it", warning=True)
            for name in _LATER_POLICIES
            if name in written
        ]
    problems += [
        Problem(f"spec.tfReplicaSpecs.{name}.template", f"{api_version} has no default parameter server")
        for name, replica in job.spec.tf_replica_specs.items()
        if replica.template is None
    ]
    metadata = written_metadata(job)
    spec = {**written, "tfReplicaSpecs": spec.get("tfReplicaSpecs", {})}
    return {"apiVersion": api_version, "kind": KIND, "metadata": metadata, "spec": spec}, problems


def _usual(job: TFJob) -> bool:
    """Whether the job's success rule is the one that these versions have anyway."""
    policy = job.spec.termination_policy
    return bool(policy and policy.chief == ChiefReference() and MASTER in job.spec.tf_replica_specs)


def current_name(name: str) -> str:
    """What a replica type is called since the first days of v1alpha2."""
    return EVALUATOR if name == _EVALUATOR_AT_FIRST else name


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
