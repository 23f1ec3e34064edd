"""`kubeflow.org/v1beta2`, `v1beta1` and `v1alpha2` TFJob: v1 with the run policy's fields directly under `spec`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

import msgspec

from tfjob.api.conversion import Conversion, own_metadata, recorded_origin, respelt_types, written_metadata
from tfjob.api.problems import Path, Problem
from tfjob.api.schema.checker import Definition, Schema
from tfjob.api.schema.pod_schema import pod_definitions
from tfjob.api.types import API_VERSION, EVALUATOR, KIND, MASTER, ChiefReference, TFJob
from tfjob.api.versions import v1

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
