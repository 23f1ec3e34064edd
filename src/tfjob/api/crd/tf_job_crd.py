"""The CustomResourceDefinition of TfJob in tensorflow.org: the first operator's, which had no schema.

Its shape is judged by the webhook and the controller, which name the place of a fault in the user's own spelling; a
schema would drop `replica_specs` and `runtimeId`, which its users write.
"""

from __future__ import annotations

from typing import Any

from tfjob.api.crd.tfjob import AGE, definition, job_schema, version
from tfjob.api.dialect import TENSORFLOW, TF_JOB
from tfjob.api.versions.served_v1beta import DETAILS

NAME = "tfjobs.tensorflow.org"
SHORT_NAME = "tfja"

_ANYTHING: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_COLUMNS = (
    ("Phase", "string", ".status.phase"),
    ("State", "string", ".status.state"),
    ("RuntimeId", "string", ".spec.RuntimeId"),
    AGE,
)
STATUS: dict[str, Any] = {
    "phase": {"type": "string", "description": "Creating, Running, CleanUp, Failed or Done."},
    "state": {"type": "string", "description": "Running, Succeeded or Failed."},
    "reason": {"type": "string", "description": "What the job waits for, or why it failed."},
    "conditions": {"type": "array", "nullable": True, "items": _ANYTHING, "description": "Always null."},
    "controlPaused": {"type": "boolean", "description": "Always false."},
    "replicaStatuses": {
        "type": "array",
        "description": "How many replicas of each type are in each state.",
        "items": {
            "type": "object",
            "properties": {
                "tf_replica_type": {"type": "string", "description": "MASTER, WORKER or PS."},
                "state": {"type": "string", "description": "Running, Succeeded, Failed or Unknown."},
                "ReplicasStates": {
                    "type": "object",
                    "additionalProperties": {"type": "integer"},
                    "description": "How many replicas are in a state, by state.",
                },
            },
        },
    },
    DETAILS: {**_ANYTHING, "description": "The status as kubeflow.org/v1 has it."},
}
"""Of v1alpha1, whatever its group."""


def tf_job_crd() -> dict[str, Any]:
    """The CRD as an object to apply."""
    group, name = TENSORFLOW.split("/")
    schema = job_schema(_ANYTHING, {"type": "object", "properties": STATUS})
    return definition(group, TF_JOB, SHORT_NAME, version(name, schema, _COLUMNS, stored=True))
