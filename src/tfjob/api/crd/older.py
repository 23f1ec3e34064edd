"""The CRD of TFJob with older versions in addition to v1, and the CRD of the 2017 TfJob in tensorflow.org.

Pod templates have no schema in the older versions: v1, which is stored, keeps all their fields, and the webhook checks
them in every version. The 2017 TfJob has no schema at all, because a schema would drop `replica_specs` and `runtimeId`,
which users write. The webhook and the controller check it, and report problems in the user's spelling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfjob.api.crd.tfjob import AGE, Column, Node, SpecNodes, crd, definition, job_schema, status_node, version
from tfjob.api.dialect import TENSORFLOW, TF_JOB, TF_JOB_SHORT_NAME
from tfjob.api.schema.checker import LENIENT, Definition
from tfjob.api.types import GROUP
from tfjob.api.versions import v1, v1alpha1, v1beta
from tfjob.api.versions.round_trip import ALPHA1, OLDER
from tfjob.api.versions.v1beta import DETAILS, status_names

OLDER_NAMES = tuple(version.removeprefix(f"{GROUP}/") for version in OLDER)
"""The names of the versions that can be served in addition to v1."""
_TEMPLATES: dict[str, Definition] = {kind: {} for kind in LENIENT}
_BETA_COLUMNS: tuple[Column, ...] = (("State", "string", ".status.conditions[-1:].type"), AGE)
_ALPHA1_COLUMNS: tuple[Column, ...] = (("Phase", "string", ".status.phase"), ("State", "string", ".status.state"), AGE)
TF_JOB_CRD_NAME = "tfjobs.tensorflow.org"
_ANYTHING: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TF_JOB_COLUMNS: tuple[Column, ...] = (*_ALPHA1_COLUMNS[:2], ("RuntimeId", "string", ".spec.RuntimeId"), AGE)


def _field(kind: str, description: str, **more: Any) -> Node:
    return {"type": kind, "description": description, **more}


_REPLICA_STATUS: Node = {
    "tf_replica_type": _field("string", "Type of the replicas: MASTER, WORKER or PS."),
    "state": _field("string", "Their state: Running, Succeeded, Failed or Unknown."),
    "ReplicasStates": _field("object", "Number of replicas in each state.", additionalProperties={"type": "integer"}),
}
_REPLICA_STATUSES: Node = {"type": "object", "properties": _REPLICA_STATUS}
STATUS: dict[str, Any] = {
    "phase": _field("string", "Phase of the job: Creating, Running, CleanUp, Failed or Done."),
    "state": _field("string", "State of the job: Running, Succeeded or Failed."),
    "reason": _field("string", "What the job is waiting for, or why it failed."),
    "conditions": _field("array", "Always null.", nullable=True, items=_ANYTHING),
    "controlPaused": _field("boolean", "Always false."),
    "replicaStatuses": _field("array", "Number of replicas of each type in each state.", items=_REPLICA_STATUSES),
    DETAILS: {**_ANYTHING, "description": "Status of the job in the format of kubeflow.org/v1."},
}
"""The status of v1alpha1 in both groups."""
_ALPHA1_STATUS: Node = {"type": "object", "properties": STATUS}


def crd_with(older: Sequence[str], webhook: Mapping[str, Any]) -> dict[str, Any]:
    """Return the CRD that serves v1 and these versions; `webhook` is the address of the conversion webhook."""
    made = crd()
    if not older:
        return made
    made["spec"]["versions"] += [_older(name) for name in OLDER_NAMES if name in older]
    made["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": dict(webhook)},
    }
    return made


def _older(name: str) -> dict[str, Any]:
    if f"{GROUP}/{name}" == ALPHA1:
        return version(name, job_schema(_alpha1_spec(), _ALPHA1_STATUS), _ALPHA1_COLUMNS, stored=False)
    return version(name, job_schema(_beta_spec(), _beta_status(f"{GROUP}/{name}")), _BETA_COLUMNS, stored=False)


def _beta_spec() -> Node:
    fields = {"TFJobSpec": v1beta.SPEC, "ReplicaSpec": v1.REPLICA_SPEC}
    moved = {f"spec.{name}": f"spec.runPolicy.{name}" for name in v1beta.POLICIES}
    return {**SpecNodes({**_TEMPLATES, **fields}, moved).node("TFJobSpec", "spec"), "required": ["tfReplicaSpecs"]}


def _beta_status(api_version: str) -> Node:
    known = status_node()["properties"]
    said = {own: known[name] for name, own in status_names(api_version).items()}
    details = {**STATUS[DETAILS], "description": "Status fields that only kubeflow.org/v1 has."}
    return {"type": "object", "properties": {**said, DETAILS: details}}


def _alpha1_spec() -> Node:
    """Return a spec that keeps all fields, because names have several spellings; the webhook rejects unknown fields."""
    moved = {"spec.tensorboard": "spec.tensorBoard", "spec.replicaSpecs[]": "spec.tfReplicaSpecs.TYPE"}
    spec = SpecNodes({**_TEMPLATES, **v1alpha1.DEFINITIONS}, moved).node("TFJobSpec", "spec", lenient=True)
    board = spec["properties"]["tensorboard"]
    # The 2017 operator wrote missing fields as null, and users may apply what they have read from a cluster.
    board["nullable"] = True
    for name in ("volumes", "volumeMounts"):
        board["properties"][name]["nullable"] = True
    return spec


def tf_job_crd() -> dict[str, Any]:
    group, name = TENSORFLOW.split("/")
    schema = job_schema(_ANYTHING, _ALPHA1_STATUS)
    return definition(group, TF_JOB, TF_JOB_SHORT_NAME, version(name, schema, _TF_JOB_COLUMNS, stored=True))
