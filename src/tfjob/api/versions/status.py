"""The status of a job in older API versions: phase and state in v1alpha1, fewer fields of v1 in the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tfjob.api import ranges
from tfjob.api.types import CHIEF, MASTER, ReplicaSpec, TFJob, TFJobSpec, TFJobStatus

CREATING, RUNNING, CLEAN_UP, FAILED, DONE = "Creating", "Running", "CleanUp", "Failed", "Done"
"""v1alpha1's phases."""
SUCCEEDED, UNKNOWN = "Succeeded", "Unknown"
"""v1alpha1's states, in addition to Running and Failed, which are also phases."""

INVALID_SPEC = "InvalidSpec"
"""The reason of a job that was invalid when the operator first processed it."""

BETA_FIELDS = ("conditions", "replicaStatuses", "startTime", "completionTime", "lastReconcileTime")
"""The status fields of v1beta2, v1beta1 and v1alpha2, by their names in v1."""
ALPHA2_NAMES = {"replicaStatuses": "tfReplicaStatuses"}
"""The fields with another name in v1alpha2."""


def v1alpha1_status(job: TFJob) -> dict[str, Any]:
    """Return the status in the format of v1alpha1; empty for a job that no operator has processed."""
    status, stage = job.status, _stage(job.status)
    if not stage:
        return {}
    finished = stage in (SUCCEEDED, FAILED)
    # An invalid spec may have no replicas.
    kinds = job.spec.tf_replica_specs or status.replica_statuses
    return {
        "phase": _phase(status, stage),
        "reason": "" if stage == SUCCEEDED else ": ".join(filter(None, (status.reason, status.message))),
        "state": stage if finished else RUNNING,
        "conditions": None,
        "controlPaused": False,
        "replicaStatuses": [_replica_status(kind, job) for kind in kinds if kind in status.replica_statuses],
    }


def plain_status(given: Any, replicas: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a stored v1 status in the format of v1alpha1; empty if it is malformed."""
    try:
        status = msgspec.convert(given, TFJobStatus)
        counts = {kind: msgspec.convert(one.get("replicas"), int | None) for kind, one in replicas.items()}
        specs = {kind: ReplicaSpec(replicas=count) for kind, count in counts.items()}
        if MASTER in specs and MASTER not in status.replica_statuses:
            specs = {CHIEF if kind == MASTER else kind: spec for kind, spec in specs.items()}
        return v1alpha1_status(TFJob(spec=TFJobSpec(tf_replica_specs=specs), status=status))
    except (msgspec.ValidationError, ValueError):
        return {}


def _stage(status: TFJobStatus) -> str:
    """Return the state of a job in v1; a status of training-operator v1.9 has only conditions."""
    held = [condition.type for condition in status.conditions if condition.status == "True"]
    return status.state or (held[-1] if held else "")


def _phase(status: TFJobStatus, stage: str) -> str:
    if stage == FAILED and status.reason == INVALID_SPEC and status.attempt == 0:
        return FAILED
    if stage in (SUCCEEDED, FAILED):
        return CLEAN_UP if status.cleaning else DONE
    return RUNNING if stage in ("Running", "Restarting") else CREATING


def _replica_status(kind: str, job: TFJob) -> dict[str, Any]:
    states = _replica_states(kind, job)
    order = (FAILED, RUNNING)
    state = next((state for state in order if state in states), SUCCEEDED if states.keys() == {SUCCEEDED} else UNKNOWN)
    written = MASTER if kind == CHIEF else kind
    return {"tf_replica_type": written.upper(), "state": state, "ReplicasStates": states}


def _replica_states(kind: str, job: TFJob) -> dict[str, int]:
    """Return the number of replicas in each state, before the end of the job stopped the rest."""
    status, count = job.status, job.status.replica_statuses[kind]
    replicas = job.spec.tf_replica_specs.get(kind, ReplicaSpec()).count
    succeeded = count.succeeded
    if status.attempt:
        # v1 counts pods that still run at the end as succeeded; v1alpha1 counts them as running.
        succeeded = min(succeeded, len(ranges.parse(status.completed_indexes.get(kind, ""))))
    running = count.active + count.succeeded - succeeded
    unseen = replicas - succeeded - running - count.failed
    states = {FAILED: count.failed, RUNNING: running, SUCCEEDED: succeeded, UNKNOWN: unseen}
    return {state: number for state, number in states.items() if number > 0}
