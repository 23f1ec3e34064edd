"""`kubeflow.org/v1` TFJob: the hub's own version, as training-operator v1.9 has it and with our additions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

import msgspec

from tfjob.api.conversion import METADATA, Conversion, own_metadata, respelt_types
from tfjob.api.problems import Path, Problem
from tfjob.api.schema.checker import Definition, Schema, pod_definitions
from tfjob.api.types import API_VERSION, KIND, TFJob

REPLICA_SPEC: Definition = {"replicas": "int", "restartPolicy": "string", "template": "PodTemplateSpec"}
DEFINITIONS: dict[str, Definition] = {
    "TFJob": {
        "apiVersion": "string",
        "kind": "string",
        "metadata": "Metadata",
        "spec": "TFJobSpec",
        "status": "any",
    },
    "Metadata": METADATA,
    "TFJobSpec": {
        "tfReplicaSpecs": "{ReplicaSpec}",
        "runPolicy": "RunPolicy",
        "successPolicy": "string",
        "enableDynamicWorker": "bool",
        "restartScope": "string",
        "tensorBoard": "TensorBoard",
        "terminationPolicy": "TerminationPolicy",
        "tfImage": "string",
    },
    "ReplicaSpec": REPLICA_SPEC,
    "RunPolicy": {
        "cleanPodPolicy": "string",
        "ttlSecondsAfterFinished": "int",
        "activeDeadlineSeconds": "int",
        "backoffLimit": "int",
        "schedulingPolicy": "SchedulingPolicy",
        "suspend": "bool",
        "managedBy": "string",
    },
    "SchedulingPolicy": {
        "minAvailable": "int",
        "queue": "string",
        "minResources": "{quantity}",
        "priorityClass": "string",
        "scheduleTimeoutSeconds": "int",
    },
    "TensorBoard": {
        "logDir": "string",
        "image": "string",
        "serviceType": "string",
        "volumes": "[Volume]",
        "volumeMounts": "[VolumeMount]",
    },
    "TerminationPolicy": {"chief": "Chief"},
    "Chief": {"replicaName": "string", "replicaIndex": "int"},
}


@cache
def schema() -> Schema:
    return Schema({**pod_definitions(), **DEFINITIONS})


def to_hub(manifest: Mapping[str, Any], filled: Collection[Path] = ()) -> Conversion:
    checked = schema().check(manifest, "TFJob", filled)
    spec = checked.value.get("spec", {})
    job = msgspec.convert({"metadata": own_metadata(checked.value), "spec": spec}, TFJob)
    return Conversion(job, checked.problems, respelt_types(job.spec.tf_replica_specs), checked.renamed)


def from_hub(job: TFJob, api_version: str = API_VERSION) -> tuple[dict[str, Any], list[Problem]]:
    """Return the job as a v1 manifest; v1 can express everything."""
    value = msgspec.to_builtins(job)
    metadata, spec = own_metadata(value), value["spec"]
    if not metadata["annotations"]:
        del metadata["annotations"]
    if not spec.get("runPolicy"):
        spec.pop("runPolicy", None)
    if job.spec.termination_policy and (chief := job.spec.termination_policy.chief):
        spec["terminationPolicy"]["chief"] = {
            "replicaName": chief.replica_name,
            "replicaIndex": chief.replica_index,
        }
    return {"apiVersion": api_version, "kind": KIND, "metadata": metadata, "spec": spec}, []
