from __future__ import annotations

import pytest
from msgspec.structs import replace

from tfjob.api.types import (
    MASTER,
    WORKER,
    Condition,
    ReplicaSpec,
    ReplicaStatus,
    TFJob,
    TFJobSpec,
    TFJobStatus,
)
from tfjob.api.versions.status import v1alpha1_status


def seen(status: TFJobStatus, **replicas: int) -> TFJob:
    specs = {kind: ReplicaSpec(replicas=number) for kind, number in replicas.items()}
    return TFJob(spec=TFJobSpec(tf_replica_specs=specs), status=status)


def counts(**counted: tuple[int, int, int]) -> dict[str, ReplicaStatus]:
    return {kind: ReplicaStatus(active=a, succeeded=s, failed=f) for kind, (a, s, f) in counted.items()}


def test_a_job_that_ended_shows_what_ran_before_it_was_stopped() -> None:
    """The status that the documents print, from a hub status that counts all of it as succeeded, as v1.9 does."""
    status = TFJobStatus(
        state="Succeeded",
        message="master-0 exited 0",
        attempt=1,
        completed_indexes={MASTER: "0"},
        replica_statuses=counts(Master=(0, 1, 0), Worker=(0, 1, 0), PS=(0, 2, 0)),
    )
    assert v1alpha1_status(seen(status, Master=1, Worker=1, PS=2)) == {
        "conditions": None,
        "controlPaused": False,
        "phase": "Done",
        "reason": "",
        "replicaStatuses": [
            {"ReplicasStates": {"Succeeded": 1}, "state": "Succeeded", "tf_replica_type": "MASTER"},
            {"ReplicasStates": {"Running": 1}, "state": "Running", "tf_replica_type": "WORKER"},
            {"ReplicasStates": {"Running": 2}, "state": "Running", "tf_replica_type": "PS"},
        ],
        "state": "Succeeded",
    }


PHASES: list[tuple[str, TFJobStatus, bool, tuple[str, str, str]]] = [
    (
        "waiting to start",
        TFJobStatus(state="Pending", reason="Unschedulable", message="worker-0: no node fits", attempt=1),
        False,
        ("Creating", "Running", "Unschedulable: worker-0: no node fits"),
    ),
    ("running", TFJobStatus(state="Running", attempt=1), False, ("Running", "Running", "")),
    (
        "running, and one replica waits",
        TFJobStatus(state="Running", reason="CrashLoopBackOff", message="worker-1: exited 1", attempt=1),
        False,
        ("Running", "Running", "CrashLoopBackOff: worker-1: exited 1"),
    ),
    (
        "between two attempts",
        TFJobStatus(state="Restarting", reason="Error", message="master-0 exited 137", attempt=2),
        False,
        ("Running", "Running", "Error: master-0 exited 137"),
    ),
    (
        "suspended",
        TFJobStatus(state="Suspended", reason="Stopped", attempt=1),
        False,
        ("Creating", "Running", "Stopped"),
    ),
    ("ended well, being stopped", TFJobStatus(state="Succeeded", attempt=1), True, ("CleanUp", "Succeeded", "")),
    ("ended well", TFJobStatus(state="Succeeded", attempt=1), False, ("Done", "Succeeded", "")),
    (
        "ended badly, being stopped",
        TFJobStatus(state="Failed", reason="Error", message="master-0 exited 1", attempt=1),
        True,
        ("CleanUp", "Failed", "Error: master-0 exited 1"),
    ),
    (
        "ended badly",
        TFJobStatus(state="Failed", reason="Error", message="master-0 exited 1", attempt=1),
        False,
        ("Done", "Failed", "Error: master-0 exited 1"),
    ),
    (
        "refused",
        TFJobStatus(state="Failed", reason="InvalidSpec", message="spec.replicaSpecs: is empty"),
        False,
        ("Failed", "Failed", "InvalidSpec: spec.replicaSpecs: is empty"),
    ),
    (
        "begun by training-operator",
        TFJobStatus(conditions=[Condition(type="Created", status="True"), Condition(type="Running", status="True")]),
        False,
        ("Running", "Running", ""),
    ),
    (
        "finished by training-operator",
        TFJobStatus(conditions=[Condition(type="Running", status="False"), Condition(type="Failed", status="True")]),
        False,
        ("Done", "Failed", ""),
    ),
]


@pytest.mark.parametrize(("status", "cleaning", "shown"), [row[1:] for row in PHASES], ids=[row[0] for row in PHASES])
def test_phase_state_and_reason(status: TFJobStatus, cleaning: bool, shown: tuple[str, str, str]) -> None:
    value = v1alpha1_status(seen(replace(status, cleaning=cleaning), Master=1))
    assert (value["phase"], value["state"], value["reason"]) == shown


REPLICAS: list[tuple[str, TFJobStatus, str, dict[str, int]]] = [
    ("none seen yet", TFJobStatus(replica_statuses=counts(Worker=(0, 0, 0))), "Unknown", {"Unknown": 3}),
    ("all run", TFJobStatus(replica_statuses=counts(Worker=(3, 0, 0))), "Running", {"Running": 3}),
    (
        "some run, some are done",
        TFJobStatus(replica_statuses=counts(Worker=(1, 2, 0)), completed_indexes={WORKER: "0,2"}),
        "Running",
        {"Running": 1, "Succeeded": 2},
    ),
    (
        "all done",
        TFJobStatus(replica_statuses=counts(Worker=(0, 3, 0)), completed_indexes={WORKER: "0-2"}),
        "Succeeded",
        {"Succeeded": 3},
    ),
    (
        "one has failed",
        TFJobStatus(replica_statuses=counts(Worker=(2, 0, 1))),
        "Failed",
        {"Failed": 1, "Running": 2},
    ),
    (
        "done, and one not seen",
        TFJobStatus(replica_statuses=counts(Worker=(0, 2, 0)), completed_indexes={WORKER: "0-1"}),
        "Unknown",
        {"Succeeded": 2, "Unknown": 1},
    ),
]


@pytest.mark.parametrize(("status", "state", "states"), [row[1:] for row in REPLICAS], ids=[row[0] for row in REPLICAS])
def test_a_replicas_states_and_the_state_of_the_set(status: TFJobStatus, state: str, states: dict[str, int]) -> None:
    shown = v1alpha1_status(seen(replace(status, state="Running", attempt=1), Worker=3))["replicaStatuses"]
    assert shown == [{"tf_replica_type": "WORKER", "state": state, "ReplicasStates": states}]


def test_counts_of_training_operator_are_taken_as_they_are() -> None:
    finished = [Condition(type="Succeeded", status="True")]
    status = TFJobStatus(conditions=finished, replica_statuses=counts(Worker=(0, 2, 0)))
    (shown,) = v1alpha1_status(seen(status, Worker=2))["replicaStatuses"]
    assert shown["ReplicasStates"] == {"Succeeded": 2}


def test_replicas_come_in_the_order_of_the_spec_and_a_chief_is_called_master() -> None:
    status = TFJobStatus(state="Running", attempt=1, replica_statuses=counts(Chief=(1, 0, 0), PS=(1, 0, 0)))
    job = seen(status, PS=1, Chief=1)
    shown = [replica["tf_replica_type"] for replica in v1alpha1_status(job)["replicaStatuses"]]
    assert shown == ["PS", "MASTER"]


def test_a_job_that_nobody_looked_at_has_no_status() -> None:
    assert v1alpha1_status(seen(TFJobStatus(), Master=1)) == {}
