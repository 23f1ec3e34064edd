"""`kubeflow.org/v1beta2`, `v1beta1` and `v1alpha2` TFJob: v1 with the run policy's fields directly under `spec`.

`to_v1` and `from_v1` convert stored objects, and manifests that `to_hub` has checked. They check nothing themselves:
the values of stored objects may have any type, and the notes of `round_trip` preserve what cannot be converted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from tfjob.api.conversion import (
    Conversion,
    Spelling,
    hub_job,
    left_out,
    respell,
    respelled_types,
    restore_spelling,
    written_metadata,
)
from tfjob.api.problems import Path, Problem
from tfjob.api.schema.checker import Definition, Schema, pod_definitions
from tfjob.api.types import API_VERSION, EVALUATOR, MASTER, ORIGIN, ChiefReference, TFJob
from tfjob.api.versions import v1
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
_FIRST_NAMES = {"Eval": EVALUATOR}
"""The types that early releases of v1alpha2 named differently, by that name."""
Object = dict[str, Any]
DETAILS = "details"
"""The field of an older status with the fields that only v1 has.

An API server keeps the status of an object that is replaced, but not the annotation of `round_trip`.
"""
RUN_POLICY: Object = {"suspend": False}
"""An empty run policy as an API server stores it."""
_REPLICAS = "tfReplicaSpecs"


@cache
def schema() -> Schema:
    newer = v1.DEFINITIONS["TFJobSpec"].keys() - SPEC.keys()
    hints = {("TFJobSpec", name): f"use apiVersion: {API_VERSION}" for name in newer}
    hints["TFJobSpec", "runPolicy"] = "in this version, write its fields directly under spec"
    return Schema({**pod_definitions(), **v1.DEFINITIONS, "TFJobSpec": SPEC}, hints=hints)


def to_hub(manifest: Mapping[str, Any], filled: Collection[Path] = ()) -> Conversion:
    checked = schema().check(manifest, "TFJob", filled)
    own, spelt = plain(checked.value)
    moved: tuple[tuple[Path, Path], ...] = (
        *((("spec", "runPolicy", name), ("spec", name)) for name in POLICIES),
        *respelled_types(mapping(own.get("spec")).get(_REPLICAS, {})),
        *(((*path, name), (*path, written)) for path, name, written in spelt),
    )
    job = hub_job(to_v1(own), **{ORIGIN: manifest["apiVersion"]})
    return Conversion(job, checked.problems, moved, checked.renamed)


def from_hub(job: TFJob, api_version: str) -> tuple[dict[str, Any], list[Problem]]:
    value, _ = v1.from_hub(job)
    policy = value["spec"].get("runPolicy", {})
    said = (_REPLICAS, "runPolicy", *(["terminationPolicy"] if _has_default_success_rule(job) else []))
    problems = left_out(value["spec"], said, POLICIES, api_version)
    if api_version != VERSIONS[0]:
        problems += [
            Problem(f"spec.runPolicy.{name}", f"is ignored by operators of {api_version}", warning=True)
            for name in _LATER_POLICIES
            if name in policy
        ]
    problems += [
        Problem(f"spec.{_REPLICAS}.{name}.template", f"is required: {api_version} has no default parameter server")
        for name, replica in job.spec.tf_replica_specs.items()
        if replica.template is None
    ]
    return {**from_v1(value, api_version), "metadata": written_metadata(job)}, problems


def _has_default_success_rule(job: TFJob) -> bool:
    """Return whether the job has the success rule of these versions."""
    policy = job.spec.termination_policy
    return bool(policy and policy.chief == ChiefReference() and MASTER in job.spec.tf_replica_specs)


def plain(job: Object) -> tuple[Object, list[Spelling]]:
    """Return an object with canonical names, and the names that were changed."""
    found: list[Spelling] = []
    replicas = mapping(mapping(job.get("spec")).get(_REPLICAS))
    named = respell(replicas, lambda name: _FIRST_NAMES.get(name, name), ["spec", _REPLICAS], found)
    return {**job, "spec": {**job["spec"], _REPLICAS: named}} if found else job, found


written = restore_spelling


def plain_v1(job: Object) -> tuple[Object, list[Spelling]]:
    return job, []


def to_v1(job: Object) -> Object:
    """Convert `job` from one of these versions to v1, both in their plain form."""
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
    """Convert `job` from v1 to one of these versions, both in their plain form."""
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
    return value if isinstance(value, dict) else {}


def with_origin(metadata: Any, api_version: str, **annotations: Any) -> Object:
    """Add the version that the job was written for to v1 metadata, unless it has one."""
    given = mapping(metadata)
    return {**given, "annotations": {ORIGIN: api_version, **mapping(given.get("annotations")), **annotations}}


def without_origin(metadata: Any, api_version: str, *dropped: str) -> Object:
    kept = {
        key: text
        for key, text in mapping(mapping(metadata).get("annotations")).items()
        if key not in dropped and (key, text) != (ORIGIN, api_version)
    }
    others = {key: value for key, value in mapping(metadata).items() if key != "annotations"}
    return {**others, "annotations": kept} if kept else others


def status_names(api_version: str) -> dict[str, str]:
    names = ALPHA2_NAMES if api_version == "kubeflow.org/v1alpha2" else {}
    return {name: names.get(name, name) for name in BETA_FIELDS}
