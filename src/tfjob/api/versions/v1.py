"""`kubeflow.org/v1` TFJob: the version of the hub, as in training-operator v1.9 with our additions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

import msgspec

from tfjob.api.conversion import METADATA, Conversion, hub_job, own_metadata, respelled_types
from tfjob.api.problems import Path, Problem
from tfjob.api.schema.checker import Definition, Schema, definitions_of, pod_definitions
from tfjob.api.types import API_VERSION, KIND, TFJob, TFJobSpec

_TYPES = definitions_of(TFJobSpec)
REPLICA_SPEC: Definition = {**_TYPES["ReplicaSpec"], "template": "PodTemplateSpec"}
DEFINITIONS: dict[str, Definition] = {
    **_TYPES,
    "TFJob": {"apiVersion": "string", "kind": "string", "metadata": "Metadata", "spec": "TFJobSpec", "status": "any"},
    "Metadata": METADATA,
    "ReplicaSpec": REPLICA_SPEC,
    "SchedulingPolicy": {**_TYPES["SchedulingPolicy"], "minResources": "{quantity}"},
    "TensorBoard": {**_TYPES["TensorBoard"], "volumes": "[Volume]", "volumeMounts": "[VolumeMount]"},
}


@cache
def schema() -> Schema:
    return Schema({**pod_definitions(), **DEFINITIONS})


def to_hub(manifest: Mapping[str, Any], filled: Collection[Path] = ()) -> Conversion:
    checked = schema().check(manifest, "TFJob", filled)
    job = hub_job(checked.value)
    return Conversion(job, checked.problems, respelled_types(job.spec.tf_replica_specs), checked.renamed)


def from_hub(job: TFJob, api_version: str = API_VERSION) -> tuple[dict[str, Any], list[Problem]]:
    """Return the job as a v1 manifest; v1 can express everything."""
    value = msgspec.to_builtins(job)
    metadata, spec = own_metadata(value), value["spec"]
    if not metadata["annotations"]:
        del metadata["annotations"]
    if not spec.get("runPolicy"):
        spec.pop("runPolicy", None)
    if job.spec.termination_policy and (chief := job.spec.termination_policy.chief):
        spec["terminationPolicy"]["chief"] = {"replicaName": chief.replica_name, "replicaIndex": chief.replica_index}
    return {"apiVersion": api_version, "kind": KIND, "metadata": metadata, "spec": spec}, []
