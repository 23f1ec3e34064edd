"""Read and edit single jobs of an API server, for commands: the object, its state for people, its events.

The operator does not use this module: it has caches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from tfjob.api.dialect import DIALECTS, JOB_KINDS, origin
from tfjob.api.names import child_name
from tfjob.api.objects import Model, ObjectMeta
from tfjob.api.resources import CORE_EVENTS, Resource
from tfjob.api.types import API_VERSION, TFJob
from tfjob.api.versions.round_trip import converted
from tfjob.controller.actions import RecordedEvent
from tfjob.controller.kind import Stored
from tfjob.durations import USUAL
from tfjob.jobs.backend import Record
from tfjob.kinds import cluster_kinds
from tfjob.kube.access.errors import ApiError, Conflict, Forbidden, KubeError, NotFound
from tfjob.kube.cache.decode import decode_owner
from tfjob.kube.client.client import Client
from tfjob.kube.client.patches import difference, merged
from tfjob.plan.build.settings import Settings
from tfjob.plan.facts.conditions import SUSPENDED, is_finished
from tfjob.plan.facts.tasks import desired
from tfjob.plan.policy.run_policy import RESUMING
from tfjob.records.job_records import short_id

EDIT_TRIES = 5
Edit = Callable[[TFJob], TFJob]
UNSEEN, SUSPENDING, TERMINATING = "NotSeen", "Suspending", "Terminating"
PENDING = "Pending"
NOT_PICKED_UP = "no operator has picked up the job. To check whether one is running: tfjob doctor{}"
_kinds = {kind.resource.kind: kind for kind in cluster_kinds(Settings())}
BEGINNING = datetime.fromtimestamp(0, UTC)


class NoTFJobs(KubeError):
    """The API server does not have the kind."""

    def __init__(self, client: Client) -> None:
        super().__init__(
            f"the cluster {where(client)} does not serve TFJobs", "Install the operator first: tfjob operator install"
        )


def where(client: Client) -> str:
    """Return how people identify the cluster: `of context dev`, or its address."""
    access = client.access
    return f"of context {access.context}" if access.context else f"at {access.server}"


def resource_of(job: TFJob) -> Resource:
    return origin(job).resource


async def get(client: Client, namespace: str, name: str) -> TFJob | None:
    """Return the job of that name or None; `tfja/NAME` selects a TfJob with the name of a TFJob. Raises NoTFJobs."""
    prefixed = next((one for one in DIALECTS.values() if one.id_prefix and name.startswith(one.id_prefix)), None)
    wanted = name.removeprefix(prefixed.id_prefix) if prefixed else name
    if "/" in wanted:
        return None  # not a name, but its path exists: that of a subresource
    resources = [prefixed.resource] if prefixed else list(JOB_KINDS.values())
    failures: list[ApiError] = []
    for resource in resources:
        try:
            answer = await client.request("GET", resource.object_path(namespace, wanted))
        except (NotFound, Forbidden) as error:
            if error.details.name != wanted or isinstance(error, Forbidden):
                failures.append(error)
        else:
            return read_job(resource.kind, answer)
    _raise_if_all(failures, len(resources), client)
    return None


async def reread(client: Client, job: TFJob) -> TFJob | None:
    resource = resource_of(job)
    try:
        answer = await client.request("GET", resource.object_path(job.metadata.namespace, job.metadata.name))
    except NotFound:
        return None
    return read_job(resource.kind, answer)


async def list_jobs(client: Client, namespace: str = "") -> list[TFJob]:
    """Return the jobs of a namespace or, without one, of all; the newest last. Raises NoTFJobs."""
    jobs: list[TFJob] = []
    failures: list[ApiError] = []
    for kind, resource in JOB_KINDS.items():
        try:
            found = await client.list(resource, namespace, type=msgspec.Raw)
        except (NotFound, Forbidden) as error:
            failures.append(error)
        else:
            jobs += [read_job(kind, item) for item in found.items]
    _raise_if_all(failures, len(JOB_KINDS), client)
    return sorted(jobs, key=lambda job: (str(job.metadata.creation_timestamp), job.metadata.name))


def _raise_if_all(failures: Sequence[ApiError], asked: int, client: Client) -> None:
    """Raise only if every kind failed: most clusters serve one kind, and most users may read one."""
    if len(failures) < asked:
        return
    for error in failures:
        if isinstance(error, Forbidden):
            raise error
    raise NoTFJobs(client)


async def namespaces_with(client: Client, name: str) -> set[str]:
    """Return the namespaces with a job of that name (or any job), as far as we may look."""
    with suppress(Forbidden):
        return {job.metadata.namespace for job in await list_jobs(client) if name in ("", job.metadata.name)}
    return set()


async def edit(client: Client, job: TFJob, change: Edit) -> TFJob:
    """Apply `change` to the current job; send only the differences, so that unknown fields stay."""
    namespace, name, uid, resource = job.metadata.namespace, job.metadata.name, job.metadata.uid, resource_of(job)
    for tries in range(1, EDIT_TRIES + 1):
        answer = await client.request("GET", resource.object_path(namespace, name))
        stored = msgspec.json.decode(answer, type=dict[str, Any])
        if stored["metadata"]["uid"] != uid:
            raise Conflict(409, "Conflict", f"{name} was replaced by another job with the same name")
        patch = difference(stored, _edited(stored, change))
        if not patch:
            return read_job(resource.kind, answer)
        patch.setdefault("metadata", {})["resourceVersion"] = stored["metadata"]["resourceVersion"]
        try:
            return read_job(resource.kind, await client.patch(resource, namespace, name, patch))
        except Conflict:
            if tries == EDIT_TRIES:
                raise
    raise AssertionError("unreachable")


def _edited(stored: dict[str, Any], change: Edit) -> dict[str, Any]:
    hub = converted(stored, API_VERSION)
    old = msgspec.convert(hub, TFJob)
    changes = difference(msgspec.to_builtins(old), msgspec.to_builtins(change(old)))
    return converted(merged(hub, changes), stored["apiVersion"])


async def wait_for_change(client: Client, job: TFJob, seconds: float) -> None:
    """Wait until the job may have changed since it was read, at most this long."""
    params = {
        "watch": "1",
        "fieldSelector": f"metadata.name={job.metadata.name}",
        "resourceVersion": job.metadata.resource_version,
        "timeoutSeconds": str(int(seconds) + 1),
    }
    try:
        async with (
            asyncio.timeout(seconds),
            client.opened(resource_of(job).path(job.metadata.namespace), params, idle=seconds) as chunks,
        ):
            await anext(chunks, b"")
    except TimeoutError:
        return
    except (KubeError, OSError):
        # The next read reports the error, or succeeds.
        await asyncio.sleep(min(seconds, client.durations.look.total_seconds()))


def read_job(kind: str, encoded: bytes | msgspec.Raw) -> TFJob:
    return job_of(decode_owner(kind, encoded))


def job_of(stored: Stored) -> TFJob:
    """Return the job; if its spec is not valid, its readable part."""
    job, _ = _kinds[stored.kind].read(stored)
    return job


def record(
    job: TFJob,
    now: datetime,
    *,
    patience: timedelta = USUAL.unseen,
    current: bool = True,
    folder: Path | None = None,
    options: str = "",
) -> Record:
    state, unseen = state_of(job), is_unseen(job, now, patience)
    return Record(
        object=job,
        id=job.metadata.name if current else short_id(job),
        state=state,
        reason=_reason(job, state, unseen=unseen) if current else job.status.reason,
        created=job.metadata.creation_timestamp or BEGINNING,
        current=current,
        folder=str(folder) if folder else "",
        options=options,
        note=_note(job, options, unseen=unseen) if current else "",
    )


def state_of(job: TFJob) -> str:
    """Return the state that our operator writes, else one from the conditions of another operator."""
    true = [condition.type for condition in job.status.conditions if condition.status == "True"]
    state = job.status.state or next((name for name in reversed(true) if name != "Created"), PENDING)
    is_resumed = state == SUSPENDED and not job.spec.run_policy.suspend  # the operator has not noticed it yet
    return PENDING if is_resumed else state


def is_unseen(job: TFJob, now: datetime, patience: timedelta) -> bool:
    """Return whether no operator has processed a job for longer than it should take."""
    status, made = job.status, job.metadata.creation_timestamp
    looked_at = status.state or status.conditions or is_elsewhere(job)
    return not looked_at and made is not None and now - made > patience


def is_elsewhere(job: TFJob) -> bool:
    return job.spec.run_policy.managed_by not in (None, "", "kubeflow.org/training-operator")


def _note(job: TFJob, options: str, *, unseen: bool) -> str:
    if is_elsewhere(job):
        return f"it is managed by {job.spec.run_policy.managed_by}"
    if unseen:
        return NOT_PICKED_UP.format(options)
    return ""


def _reason(job: TFJob, state: str, *, unseen: bool) -> str:
    if job.metadata.deletion_timestamp is not None:
        return TERMINATING
    if unseen:
        return UNSEEN
    if job.spec.run_policy.suspend and state != SUSPENDED and not is_finished(job.status):
        return SUSPENDING
    if state == PENDING and job.status.state == SUSPENDED:
        return RESUMING
    return job.status.reason


class ObjectReference(Model, frozen=True):
    """The object that an Event is about."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class EventSeries(Model, frozen=True):
    """Count and time of repetitions in the newer API."""

    count: int = 0
    last_observed_time: datetime | None = None


class KubeEvent(Model, frozen=True):
    """An Event as the API server stores it; only some of its times are set."""

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
        return self.first_timestamp or self.event_time or self.metadata.creation_timestamp

    @property
    def last(self) -> datetime | None:
        return (self.series and self.series.last_observed_time) or self.last_timestamp or self.first


async def events_of(client: Client, job: TFJob) -> list[RecordedEvent]:
    """Return the events of a job and its pods in order; replica names replace the names of pods."""
    found = await client.list(CORE_EVENTS, job.metadata.namespace, type=KubeEvent)
    return merge_events(job, found.items)


def merge_events(job: TFJob, events: list[KubeEvent]) -> list[RecordedEvent]:
    tasks = {child_name(job, task.type, task.index): task.name for task in desired(job)}
    found = []
    for event in events:
        first, about = event.first, event.involved_object
        if first is None:
            continue
        if about.kind in JOB_KINDS and about.uid == job.metadata.uid:
            found.append(_event(event, first))
        elif about.kind in ("Pod", "Job") and (name := tasks.get(_own_name(about.name, job))) and _is_later(event, job):
            # Match by name and time: the most important pods no longer exist.
            found.append(_event(event, first, f"{name}: "))
    return sorted(found, key=lambda event: event.time)


def _own_name(name: str, job: TFJob) -> str:
    """Return the name without the suffix that a Job adds: `master-76no-0` for `master-76no-0-x7k2p`."""
    return "-".join(name.split("-")[:3]) if origin(job).wraps_pods else name


def _event(event: KubeEvent, first: datetime, who: str = "") -> RecordedEvent:
    count = max(event.count or 1, event.series.count if event.series else 1)
    return RecordedEvent(first, event.last or first, count, event.type == "Warning", event.reason, who + event.message)


def _is_later(event: KubeEvent, job: TFJob) -> bool:
    made, last = job.metadata.creation_timestamp, event.last
    return made is None or last is None or last >= made
