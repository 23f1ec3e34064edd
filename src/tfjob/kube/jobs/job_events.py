"""The Events of a job and of its pods, as one story."""

from __future__ import annotations

from datetime import datetime

from tfjob.api.dialect import origin
from tfjob.api.names import child_name
from tfjob.api.objects import Model, ObjectMeta
from tfjob.api.types import TFJob
from tfjob.jobs.backend import Event
from tfjob.kube.client.client import Client
from tfjob.kube.client.resources import CORE_EVENTS, JOB_KINDS
from tfjob.plan.facts.tasks import desired


class ObjectReference(Model, frozen=True):
    """What an Event is about."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class EventSeries(Model, frozen=True):
    """How often, and when last, where the newer API counts."""

    count: int = 0
    last_observed_time: datetime | None = None


class KubeEvent(Model, frozen=True):
    """An Event as the API server keeps it; of its many times some are set."""

    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = "Normal"
    count: int | None = None
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    series: EventSeries | None = None

    @property
    def first(self) -> datetime | None:
        """When it happened first."""
        return self.first_timestamp or self.event_time or self.metadata.creation_timestamp

    @property
    def last(self) -> datetime | None:
        """When it happened last."""
        return (self.series and self.series.last_observed_time) or self.last_timestamp or self.first


async def events_of(client: Client, job: TFJob) -> list[Event]:
    """What happened to a job and to its pods, in order; a pod is called like its replica."""
    found = await client.list(CORE_EVENTS, job.metadata.namespace, type=KubeEvent)
    return story(job, found.items)


def story(job: TFJob, events: list[KubeEvent]) -> list[Event]:
    """The events that concern a job, in order."""
    tasks = {child_name(job, task.type, task.index): task.name for task in desired(job)}
    told = []
    for event in events:
        first, about = event.first, event.involved_object
        if first is None:
            continue
        if about.kind in JOB_KINDS and about.uid == job.metadata.uid:
            told.append(_told(event, first))
        elif about.kind in ("Pod", "Job") and (name := tasks.get(_own_name(about.name, job))) and _later(event, job):
            # By name and time: the pods that matter most are those that are gone.
            told.append(_told(event, first, f"{name}: "))
    return sorted(told, key=lambda event: event.time)


def _own_name(name: str, job: TFJob) -> str:
    """The name without what a Job adds to its pods': `master-76no-0` of `master-76no-0-x7k2p`."""
    return "-".join(name.split("-")[:3]) if origin(job).is_first else name


def _told(event: KubeEvent, first: datetime, who: str = "") -> Event:
    count = max(event.count or 1, event.series.count if event.series else 1)
    return Event(first, event.last or first, count, event.type == "Warning", event.reason, who + event.message)


def _later(event: KubeEvent, job: TFJob) -> bool:
    made, last = job.metadata.creation_timestamp, event.last
    return made is None or last is None or last >= made
