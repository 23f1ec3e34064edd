"""How commands show a job of a cluster and its replicas."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from support.golden import Wording
from support.plan import builders
from support.plan.builders import T0, at, job
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
from tfjob.jobs.scale import scaled
from tfjob.kube.client.patches import difference
from tfjob.kube.jobs.jobs import Edit, EventSeries, KubeEvent, ObjectReference, merge_events, record, state_of
from tfjob.plan.policy.run_policy import resumed, suspended


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
def test_the_state_is_ours_or_from_the_conditions_of_another_operator(status: TFJobStatus, state: str) -> None:
    assert state_of(of(status)) == state


@pytest.mark.parametrize(
    ("shown", "reason", "keyword"),
    [
        (of(), "NotSeen", "operator"),
        (of(TFJobStatus(state="Running")), "", ""),
        (of(TFJobStatus(state="Pending", reason="Unschedulable")), "Unschedulable", ""),
        (of(TFJobStatus(state="Running"), {"suspend": True}), "Suspending", ""),
        (of(TFJobStatus(state="Suspended", reason="Stopped"), {"suspend": True}), "Stopped", ""),
        (of(TFJobStatus(state="Suspended", reason="Stopped")), "Resuming", ""),
        (of(TFJobStatus(state="Running"), deletion_timestamp=T0), "Terminating", ""),
        (of(run={"managed_by": "kueue.x-k8s.io/multikueue"}), "", "kueue.x-k8s.io/multikueue"),
    ],
)
def test_the_reason_adds_what_the_status_does_not_contain(
    shown: TFJob, reason: str, keyword: str, wording: Wording
) -> None:
    found = record(shown, T0 + timedelta(minutes=1), options=" --on k8s")
    assert found.reason == reason
    assert keyword in found.note
    assert bool(found.note) is bool(keyword)
    wording(found.note)


def test_a_job_is_suspended_as_long_as_its_spec_says_so() -> None:
    """A job that was just resumed must not appear suspended."""
    assert state_of(of(TFJobStatus(state="Suspended"), {"suspend": True})) == "Suspended"
    assert record(of(TFJobStatus(state="Suspended")), T0).state == "Pending"


def test_a_new_job_has_time_to_be_seen() -> None:
    assert record(of(), at(5)).reason == ""


def test_the_id_of_a_record_is_unique() -> None:
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


def test_a_replica_is_shown_from_its_pod_or_from_the_status() -> None:
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


def test_a_replica_that_backs_off_keeps_its_phase() -> None:
    owner = job(worker=2, policy="OnFailure")
    waiting, leaving = (builders.pod(owner, name).backing_off(3) for name in ("worker-0", "worker-1"))
    found = replicas(owner, [waiting.pod, leaving.deleting().pod])
    assert [(one.phase, one.shown) for one in found] == [("Running", "CrashLoopBackOff"), ("Terminating", "")]


# --- events of a job and its pods -------------------------------------------------------------------------------------


def mnist() -> TFJob:
    made = job(worker=1)
    return replace(made, metadata=replace(made.metadata, uid="job", creation_timestamp=at(0)))


def event(kind: str, name: str, reason: str, time: datetime, **more: Any) -> KubeEvent:
    about = ObjectReference(kind=kind, name=name, uid="job" if kind == "TFJob" else "x")
    return KubeEvent(involved_object=about, reason=reason, message=f"{reason} it", first_timestamp=time, **more)


def test_events_of_the_job_and_its_pods_are_returned_in_order() -> None:
    events = [
        event("Pod", "mnist-worker-0", "FailedMount", at(2), type="Warning", count=3, last_timestamp=at(9)),
        event("TFJob", "mnist", "TFJobCreated", at(1)),
        event("Pod", "other-worker-0", "Pulled", at(2)),
        event("Service", "mnist-worker-0", "Odd", at(2)),
    ]
    told = merge_events(mnist(), events)
    assert [(one.reason, one.message, one.count, one.warning) for one in told] == [
        ("TFJobCreated", "TFJobCreated it", 1, False),
        ("FailedMount", "worker-0: FailedMount it", 3, True),
    ]
    assert told[1].last == at(9)


def test_events_of_an_earlier_job_s_pods_are_left_out() -> None:
    assert merge_events(mnist(), [event("Pod", "mnist-worker-0", "Killing", at(-60))]) == []
    other = KubeEvent(involved_object=ObjectReference(kind="TFJob", name="mnist", uid="old"), first_timestamp=at(1))
    assert merge_events(mnist(), [other]) == []


def test_an_event_of_the_newer_api_is_read() -> None:
    series = EventSeries(count=7, last_observed_time=at(8))
    about = ObjectReference(kind="Pod", name="mnist-worker-0")
    (told,) = merge_events(
        mnist(), [KubeEvent(involved_object=about, reason="FailedScheduling", event_time=at(3), series=series)]
    )
    assert (told.time, told.last, told.count) == (at(3), at(8), 7)


# --- patches of edits -------------------------------------------------------------------------------------------------

SUSPENDED = suspended(job(worker=2), "Stopped")


@pytest.mark.parametrize(
    ("old", "edit", "patch"),
    [
        (
            job(worker=2),
            lambda one: suspended(one, "Stopped"),
            {
                "metadata": {"annotations": {"tfjob/suspend-reason": "Stopped"}},
                "spec": {"runPolicy": {"suspend": True}},
            },
        ),
        (
            SUSPENDED,
            resumed,
            {
                "metadata": {"annotations": {"tfjob/suspend-reason": None}},
                "spec": {"runPolicy": {"suspend": None}},
            },
        ),
        (
            job(worker=2),
            lambda one: scaled(one, {"worker": 3}),
            {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 3}}}},
        ),
        (job(worker=2), lambda one: one, {}),
    ],
    ids=["suspend", "resume", "scale", "nothing"],
)
def test_only_differences_are_sent(old: TFJob, edit: Edit, patch: dict[str, Any]) -> None:
    assert difference(msgspec.to_builtins(old), msgspec.to_builtins(edit(old))) == patch


@pytest.mark.parametrize(("whole", "patch"), [(False, {"a": {"b": None}}), (True, {"a": None})])
def test_a_removed_object_keeps_unknown_fields_unless_whole(whole: bool, patch: dict[str, Any]) -> None:
    assert difference({"a": {"b": 1}}, {}, whole=whole) == patch


def test_removed_fields_are_sent_as_null_and_lists_as_a_whole() -> None:
    assert difference({"a": 1, "b": [1], "c": {"d": 1}}, {"b": [1, 2], "c": {}}) == {
        "a": None,
        "b": [1, 2],
        "c": {"d": None},
    }
