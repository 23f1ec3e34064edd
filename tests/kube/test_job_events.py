"""The Events of a job and of its pods as one story."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec.structs import replace

from plan.builders import at, job
from tfjob.api.types import TFJob
from tfjob.kube.jobs.jobs import EventSeries, KubeEvent, ObjectReference, story


def mnist() -> TFJob:
    made = job(worker=1)
    return replace(made, metadata=replace(made.metadata, uid="job", creation_timestamp=at(0)))


def event(kind: str, name: str, reason: str, time: datetime, **more: Any) -> KubeEvent:
    about = ObjectReference(kind=kind, name=name, uid="job" if kind == "TFJob" else "x")
    return KubeEvent(involved_object=about, reason=reason, message=f"{reason} it", first_timestamp=time, **more)


def test_events_of_the_job_and_of_its_pods_are_told_in_order_and_others_are_not() -> None:
    events = [
        event("Pod", "mnist-worker-0", "FailedMount", at(2), type="Warning", count=3, last_timestamp=at(9)),
        event("TFJob", "mnist", "TFJobCreated", at(1)),
        event("Pod", "other-worker-0", "Pulled", at(2)),
        event("Service", "mnist-worker-0", "Odd", at(2)),
    ]
    told = story(mnist(), events)
    assert [(one.reason, one.message, one.count, one.warning) for one in told] == [
        ("TFJobCreated", "TFJobCreated it", 1, False),
        ("FailedMount", "worker-0: FailedMount it", 3, True),
    ]
    assert told[1].last == at(9)


def test_events_of_an_earlier_job_s_pods_are_left_out() -> None:
    assert story(mnist(), [event("Pod", "mnist-worker-0", "Killing", at(-60))]) == []
    other = KubeEvent(involved_object=ObjectReference(kind="TFJob", name="mnist", uid="old"), first_timestamp=at(1))
    assert story(mnist(), [other]) == []


def test_an_event_of_the_newer_api_has_its_times_and_count_elsewhere() -> None:
    series = EventSeries(count=7, last_observed_time=at(8))
    about = ObjectReference(kind="Pod", name="mnist-worker-0")
    (told,) = story(
        mnist(), [KubeEvent(involved_object=about, reason="FailedScheduling", event_time=at(3), series=series)]
    )
    assert (told.time, told.last, told.count) == (at(3), at(8), 7)
