"""How a job of a cluster and its replicas are shown."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from plan import builders
from plan.builders import T0, at, job
from tfjob.api.objects import (
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    ObjectMeta,
    Pod,
    PodStatus,
)
from tfjob.api.types import Condition, TFJob, TFJobStatus
from tfjob.jobs.replicas import replicas
from tfjob.kube.jobs.jobs import record, state_of


def of(status: TFJobStatus | None = None, run: dict[str, Any] | None = None, **metadata: Any) -> TFJob:
    made = job(worker=2, run=run or {}, status=status or TFJobStatus())
    return replace(made, metadata=replace(made.metadata, creation_timestamp=T0, uid="12345678-9", **metadata))


def conditions(*types: str) -> TFJobStatus:
    return TFJobStatus(conditions=[Condition(type=name, status="True") for name in types])


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (TFJobStatus(state="Restarting"), "Restarting"),
        (conditions("Created"), "Pending"),
        (conditions("Created", "Running"), "Running"),
        (conditions("Created", "Running", "Succeeded"), "Succeeded"),
        (TFJobStatus(conditions=[Condition(type="Running", status="False")]), "Pending"),
        (TFJobStatus(), "Pending"),
        (TFJobStatus(state="Suspended"), "Pending"),
        (conditions("Created", "Suspended"), "Pending"),
    ],
)
def test_the_state_is_ours_or_what_another_operator_s_conditions_say(status: TFJobStatus, state: str) -> None:
    assert state_of(of(status)) == state


@pytest.mark.parametrize(
    ("shown", "reason", "noted"),
    [
        (of(), "NotSeen", "no operator has looked at it"),
        (of(TFJobStatus(state="Running")), "", ""),
        (of(TFJobStatus(state="Pending", reason="Unschedulable")), "Unschedulable", ""),
        (of(TFJobStatus(state="Running"), {"suspend": True}), "Suspending", ""),
        (of(TFJobStatus(state="Suspended", reason="Stopped"), {"suspend": True}), "Stopped", ""),
        (of(TFJobStatus(state="Suspended", reason="Stopped")), "Resuming", ""),
        (of(TFJobStatus(state="Running"), deletion_timestamp=T0), "Terminating", ""),
        (of(run={"managed_by": "kueue.x-k8s.io/multikueue"}), "", "it is managed by kueue.x-k8s.io/multikueue"),
    ],
)
def test_the_reason_says_what_the_status_does_not_know(shown: TFJob, reason: str, noted: str) -> None:
    found = record(shown, T0 + timedelta(minutes=1), options=" --on k8s")
    assert found.reason == reason
    assert found.note.startswith(noted)
    assert bool(found.note) is bool(noted)


def test_a_job_is_suspended_as_long_as_its_spec_says_so() -> None:
    """What was resumed a moment ago must not look as if it were at rest."""
    assert state_of(of(TFJobStatus(state="Suspended"), {"suspend": True})) == "Suspended"
    assert record(of(TFJobStatus(state="Suspended")), T0).state == "Pending"


def test_a_new_job_is_given_time_to_be_seen() -> None:
    assert record(of(), at(5)).reason == ""


def test_the_id_of_a_job_is_its_name_and_that_of_a_record_tells_it_from_later_ones() -> None:
    assert record(of(), T0).id == "mnist"
    assert record(of(), T0, current=False).id == "mnist.12345678"


def pod(name: str, phase: str, code: int | None = None, attempt: str = "1", **status: Any) -> Pod:
    kind, _, index = name.rpartition("-")
    state = ContainerState(terminated=ContainerTerminated(exit_code=code)) if code is not None else ContainerState()
    container = ContainerStatus(name="tensorflow", state=state, **status)
    return Pod(
        metadata=ObjectMeta(
            name=f"mnist-{name}",
            labels={"training.kubeflow.org/replica-type": kind, "training.kubeflow.org/replica-index": index},
            annotations={"tfjob/attempt": attempt},
        ),
        spec={"containers": [{"name": "tensorflow", "resources": {"limits": {"cpu": 1}}}]},
        status=PodStatus(phase=phase, pod_ip="10.0.0.1", container_statuses=[container]),
    )


def test_a_replica_is_shown_by_its_pod_or_by_what_the_status_remembers() -> None:
    status = TFJobStatus(attempt=2, started={"Worker": "0-2"}, completed_indexes={"Worker": "1"})
    shown = replace(job(worker=4, status=status), status=status)
    found = replicas(shown, [pod("worker-0", "Running", attempt="2"), pod("worker-2", "Failed", code=3, attempt="2")])
    assert [(one.name, one.phase, one.attempts, one.exit_code) for one in found] == [
        ("worker-0", "Running", 2, None),
        ("worker-1", "Succeeded", 2, 0),
        ("worker-2", "Failed", 2, 3),
        ("worker-3", "-", 1, None),
    ]
    assert found[0].resources == {"limits": {"cpu": 1}}
    assert (found[0].address, found[1].address) == ("10.0.0.1", "")


def test_a_replica_between_two_tries_is_shown_as_that_and_keeps_its_phase() -> None:
    owner = job(worker=2, policy="OnFailure")
    waiting, leaving = (builders.pod(owner, name).backing_off(3) for name in ("worker-0", "worker-1"))
    found = replicas(owner, [waiting.pod, leaving.deleting().pod])
    assert [(one.phase, one.shown) for one in found] == [("Running", "CrashLoopBackOff"), ("Terminating", "")]
