"""The status of a job as the older API versions wrote it: phase and state in v1alpha1, less of v1's in the others."""

from __future__ import annotations

from typing import Any

from tfjob.api import ranges
from tfjob.api.types import CHIEF, MASTER, ReplicaStatus, TFJob, TFJobStatus

CREATING, RUNNING, CLEAN_UP, FAILED, DONE = "Creating", "Running", "CleanUp", "Failed", "Done"
"""v1alpha1's phases."""
SUCCEEDED, UNKNOWN = "Succeeded", "Unknown"
"""Beside Running and Failed, which are phases too, v1alpha1's states."""

INVALID_SPEC = "InvalidSpec"
"""The reason of a job that was refused when the operator first looked at it."""

BETA_FIELDS = ("conditions", "replicaStatuses", "startTime", "completionTime", "lastReconcileTime")
"""What v1beta2, v1beta1 and v1alpha2 say of a status, by its name in v1."""
ALPHA2_NAMES = {"replicaStatuses": "tfReplicaStatuses"}
"""What v1alpha2 calls otherwise."""


def v1alpha1_status(job: TFJob) -> dict[str, Any]:
    """Return the status in v1alpha1's shape; empty for a job that no operator has seen."""
    status, stage = job.status, _stage(job.status)
    if not stage:
        return {}
    finished = stage in (SUCCEEDED, FAILED)
    # A spec that was edited badly may have no replicas.
    kinds = job.spec.tf_replica_specs or status.replica_statuses
    return {
        "phase": _phase(status, stage),
        "reason": "" if stage == SUCCEEDED else _reason(status),
        "state": stage if finished else RUNNING,
        "conditions": None,
        "controlPaused": False,
        "replicaStatuses": [_replica_status(kind, job) for kind in kinds if kind in status.replica_statuses],
    }


def _stage(status: TFJobStatus) -> str:
    """Return the hub's word for the state of a job; a status of training-operator v1.9 has only conditions."""
    held = [condition.type for condition in status.conditions if condition.status == "True"]
    return status.state or (held[-1] if held else "")


def _phase(status: TFJobStatus, stage: str) -> str:
    if stage == FAILED and status.reason == INVALID_SPEC and status.attempt == 0:
        return FAILED
    if stage in (SUCCEEDED, FAILED):
        return CLEAN_UP if status.cleaning else DONE
    return RUNNING if stage in ("Running", "Restarting") else CREATING


def _reason(status: TFJobStatus) -> str:
    """Join reason and message: v1alpha1 has one field for both."""
    return ": ".join(filter(None, (status.reason, status.message)))


def _replica_status(kind: str, job: TFJob) -> dict[str, Any]:
    states = _replica_states(kind, job.status, job.status.replica_statuses[kind], _replicas(job, kind))
    order = (FAILED, RUNNING)
    state = next((state for state in order if state in states), SUCCEEDED if states.keys() == {SUCCEEDED} else UNKNOWN)
    written = MASTER if kind == CHIEF else kind
    return {"tf_replica_type": written.upper(), "state": state, "ReplicasStates": states}


def _replica_states(kind: str, status: TFJobStatus, count: ReplicaStatus, replicas: int) -> dict[str, int]:
    """Return how many replicas are in each state, as they were before the rest was stopped at the end."""
    succeeded = count.succeeded
    if status.attempt:
        # The hub counts what still ran at the end as succeeded, as v1.9 does; v1alpha1 counted it as running.
        succeeded = min(succeeded, len(ranges.parse(status.completed_indexes.get(kind, ""))))
    running = count.active + count.succeeded - succeeded
    unseen = replicas - succeeded - running - count.failed
    states = {FAILED: count.failed, RUNNING: running, SUCCEEDED: succeeded, UNKNOWN: unseen}
    return {state: number for state, number in states.items() if number > 0}


def _replicas(job: TFJob, kind: str) -> int:
    replica = job.spec.tf_replica_specs.get(kind)
    return 1 if replica is None or replica.replicas is None else replica.replicas
