"""A Kubernetes API server as the controller's cluster: read from caches, written with fences.

A status write is fenced by the version that was read, a deletion by the uid that was seen, a creation by its name.
`OwnWrites` covers the time until the caches show what was written.

The functions below the class say which job owns a child, which changes of a child matter, and why the API server
rejected an object, in the words of the plan.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence, Set
from functools import partial
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from tfjob.api.dialect import TF_JOB, origin
from tfjob.api.names import (
    FIRST_LABEL,
    JOB_NAME_LABEL,
    OPERATOR_NAME,
    OPERATOR_NAME_LABEL,
    TF_JOB_NAME_LABEL,
    child_name,
    name_label,
)
from tfjob.api.objects import AnyChild, Deployment, Job, Pod, PodGroup
from tfjob.api.types import KIND, TFJob
from tfjob.api.versions.status import v1alpha1_status
from tfjob.api.versions.v1beta import DETAILS
from tfjob.controller.cluster import AlreadyExists, Child, Conflict, Key, Refused
from tfjob.kube.access import errors
from tfjob.kube.access.errors import ApiError, Forbidden, Invalid, NotFound
from tfjob.kube.cache.decode import DECODERS, JOB_DECODERS, CachedJob, Node, decode_node, decode_pod, job_of
from tfjob.kube.cache.own_writes import OwnWrites
from tfjob.kube.cache.reflector import Reflector
from tfjob.kube.cache.store import ObjectStore
from tfjob.kube.client.client import Client
from tfjob.kube.client.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOB_KINDS,
    JOBS,
    NODES,
    PODGROUPS,
    PODS,
    SERVICES,
    Resource,
)
from tfjob.kube.cluster import tensorflow_org
from tfjob.kube.cluster.event_log import EventLog
from tfjob.kube.cluster.tensorflow_org import has_failed, unwrapped, wrapper
from tfjob.plan.actions import Event
from tfjob.plan.facts.conditions import is_finished
from tfjob.plan.facts.tasks import members

WATCHED = {"Pod": PODS, "Service": SERVICES, "ConfigMap": CONFIG_MAPS, "Deployment": DEPLOYMENTS}
"""The kinds of children that are followed by our label; pod groups, which need an addition to Kubernetes, are not."""
OURS = f"{OPERATOR_NAME_LABEL}={OPERATOR_NAME}"
START_SECONDS = 0.2
"""How long the start of a pod waits for those of its peers, so that a job becomes Running with one status write."""
INVALID, DENIED = "Invalid", "Denied"
QUOTA, TERMINATING, NOT_ALLOWED, NO_NAMESPACE = (
    "QuotaExceeded",
    "NamespaceTerminating",
    "Forbidden",
    "NamespaceNotFound",
)
BAD_REQUEST, TOO_LARGE = 400, 413


class KubeCluster:
    """The jobs of all namespaces, or of one, and their children; `kinds` are those of jobs that there are.

    `watch_nodes` needs a right that no Role can give; without it a lost node is noticed when its pods are evicted.
    """

    def __init__(
        self,
        client: Client,
        event_log: EventLog,
        *,
        namespace: str = "",
        kinds: Sequence[str] = (KIND,),
        pod_groups: Resource | None = None,
        watch_nodes: bool = True,
    ) -> None:
        self.client = client
        self.event_log = event_log
        self.tf_image = ""
        watched = {**WATCHED, **({"Job": JOBS} if TF_JOB in kinds else {})}
        self._resources = {**JOB_KINDS, **watched, "PodGroup": pod_groups or PODGROUPS}
        self._writes = OwnWrites(patience=client.durations.own_write)
        self._changed: dict[Key, None] = {}  # in order, each once: a standby gathers them for weeks
        self._soon: dict[Key, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()
        self._lost_nodes: frozenset[str] = frozenset()
        self.jobs: dict[str, ObjectStore[CachedJob]] = {
            kind: ObjectStore(on_change=self._job_changed) for kind in kinds
        }
        self.pods: ObjectStore[Pod] = ObjectStore(index=owner_uid, on_change=self._child_changed)
        self.nodes: ObjectStore[Node] = ObjectStore(on_change=self._node_changed)
        self._stores: dict[str, ObjectStore[Any]] = {
            kind: ObjectStore(index=owner_uid, on_change=self._child_changed) for kind in (*watched, "PodGroup")
        }
        self._stores["Pod"] = self.pods
        self.reflectors: list[Reflector[Any]] = [
            Reflector(client, JOB_KINDS[kind], JOB_DECODERS[kind], store, namespace)
            for kind, store in self.jobs.items()
        ]
        for kind, resource in watched.items():
            self.reflectors.append(self._following(kind, resource, namespace, OURS))
        if pod_groups is not None:
            self.reflectors.append(self._following("PodGroup", pod_groups, namespace))
        if watch_nodes:
            self.reflectors.append(Reflector(client, NODES, decode_node, self.nodes))

    def _following(self, kind: str, resource: Resource, namespace: str, selector: str = "") -> Reflector[Any]:
        listed = partial(self._listed, kind)
        return Reflector(
            self.client, resource, DECODERS[kind], self._stores[kind], namespace, selector, on_listed=listed
        )

    async def follow(self) -> None:
        """Keeps the caches up to date until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self.reflectors:
                tasks.create_task(reflector.run())
            tasks.create_task(self._sweep())

    async def synced(self) -> None:
        """Waits until every cache holds what the API server had when it was asked first."""
        for reflector in self.reflectors:
            await reflector.synced.wait()

    # --- the controller's door ----------------------------------------------------------------------------------

    async def changes(self) -> AsyncIterator[Key]:
        """Keys of jobs that changed, or whose children did; the queue behind it makes one of many."""
        while True:
            while self._changed:
                key = next(iter(self._changed))
                del self._changed[key]
                yield key
            self._wake.clear()
            await self._wake.wait()

    async def job(self, key: Key) -> TFJob | None:
        """The job as the cache shows it, or as we last wrote it."""
        cached = self._cached(key)
        return None if cached is None else job_of(self._writes.job(cached))

    async def complete(self, job: TFJob) -> bool:
        """Writes a TfJob's random id and defaults into its spec, unless they are there."""
        metadata = job.metadata
        cached = self._cached(Key(metadata.namespace, metadata.name, TF_JOB))
        if cached is None or cached.metadata.resource_version != metadata.resource_version:
            raise Conflict(metadata.name)
        others = (one for one in self.jobs[TF_JOB].all() if one.metadata.namespace == metadata.namespace)
        try:
            return await tensorflow_org.complete(self.client, job, cached, others, self.tf_image)
        except (errors.Conflict, errors.NotFound) as error:
            raise Conflict(str(error)) from None
        except errors.ApiError as error:
            raise refused(error) or error from None

    async def children(self, kind: type[Child], job: TFJob) -> list[Child]:
        """The children that belong to this very job, by uid: a job of the same name before it had others."""
        if kind is Pod and origin(job).is_tensorflow_org:
            return [unwrapped(one, await self._pods_in(one)) for one in await self._children(Job, job)]  # type: ignore[misc]
        return await self._children(kind, job)

    async def create(self, child: AnyChild) -> None:
        """Makes a child and remembers it until its cache shows it."""
        try:
            if isinstance(child, Pod) and is_of_tf_job(child):
                # What refuses the pod would refuse it to the Job controller, which tells nobody but its events.
                await self.client.create(PODS, child.metadata.namespace, child, {"dryRun": "All"})
                child = wrapper(child)
            answer = await self.client.create(self._resources[child.kind], child.metadata.namespace, child)
        except errors.AlreadyExists:
            raise AlreadyExists(child.metadata.name, ours=await self._is_ours(child)) from None
        except errors.Conflict as error:
            raise Conflict(str(error)) from None  # of a quota that many use at once
        except errors.ApiError as error:
            raise refused(error) or error from None
        made = DECODERS[child.kind](answer)
        if self._shown(made) is None:
            self._writes.created(owner_uid(made) or "", made)

    async def update(self, child: PodGroup) -> None:
        """Writes a group's spec over the version that was read."""
        metadata = child.metadata
        changes = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata.resource_version},
            {"op": "replace", "path": "/spec", "value": child.spec},
        ]
        try:
            await self.client.patch(self._resources[child.kind], metadata.namespace, metadata.name, changes, "json")
        except (errors.Conflict, errors.NotFound) as error:
            raise Conflict(str(error)) from None
        except errors.ApiError as error:
            raise refused(error) or error from None

    async def delete(self, kind: str, key: Key, uid: str) -> None:
        """Removes an object if it is still the one that was seen."""
        # The garbage collector removes what belongs to a job; a child has nothing below it.
        propagation: Literal["Background", "Foreground"] = "Background"
        if kind == "Pod" and self._wraps(key, uid):
            # Its name must stay taken for as long as its pod runs: two runs of one replica never overlap.
            kind, propagation = "Job", "Foreground"
            # The garbage collector leaves alone a pod that is being deleted, even if that deletion was cut short.
            for pod in self.pods.by_index(uid):
                if pod.metadata.deletion_timestamp is not None:
                    await self._delete("Pod", pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)
        if await self._delete(kind, key.namespace, key.name, uid, propagation) and kind not in JOB_KINDS:
            self._writes.deleted(uid)

    async def _delete(
        self,
        kind: str,
        namespace: str,
        name: str,
        uid: str,
        propagation: Literal["Background", "Foreground"] = "Background",
    ) -> bool:
        """Delete an object; return False if it is gone, or another object has its name by now."""
        try:
            await self.client.delete(self._resources[kind], namespace, name, uid=uid, propagation=propagation)
        except (errors.NotFound, errors.Conflict):
            return False
        return True

    async def update_status(self, job: TFJob) -> TFJob:
        """Writes the status over the version that was read."""
        metadata = job.metadata
        api_version, kind = origin(job).owner
        body = {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {
                "name": metadata.name,
                "namespace": metadata.namespace,
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
            },
            "status": {**v1alpha1_status(job), DETAILS: job.status} if kind == TF_JOB else job.status,
        }
        try:
            answer = await self.client.update_status(JOB_KINDS[kind], metadata.namespace, metadata.name, body)
        except (errors.Conflict, errors.NotFound) as error:
            raise Conflict(str(error)) from None
        except errors.ApiError as error:
            raise refused(error) or error from None
        written = JOB_DECODERS[kind](answer)
        self._writes.written(written, self._cached(written.key))
        return replace(job, metadata=replace(job.metadata, resource_version=written.metadata.resource_version))

    async def lost_nodes(self) -> frozenset[str]:
        """Machines that do not answer."""
        return self._lost_nodes

    def kept_as(self, kind: str, job: TFJob) -> str:
        """The pod of a TfJob is kept as a Job."""
        return "Job" if kind == "Pod" and origin(job).is_tensorflow_org else kind

    def publish(self, job: TFJob, news: Event) -> None:
        """Leaves news to the event log."""
        self.event_log.add(job, news)

    async def _children(self, kind: type[Child], job: TFJob) -> list[Child]:
        owner = job.metadata.uid
        shown = self._writes.children(kind, owner, self._stores[kind.__name__].by_index(owner))
        if kind in (Pod, Job) and not is_finished(job.status) and (missing := _missing(job, shown)):
            shown += await self._asked(job, missing)
        return shown

    async def _pods_in(self, wrapping: Job) -> list[Pod]:
        """The pods of a Job; of one that failed and shows none, those that the server has: a watch may be behind."""
        uid = wrapping.metadata.uid
        shown = self.pods.by_index(uid)
        if shown or not has_failed(wrapping):
            return shown
        selector = f"batch.kubernetes.io/controller-uid={uid}"
        found = await self.client.list(PODS, wrapping.metadata.namespace, label_selector=selector, type=msgspec.Raw)
        return [decode_pod(one) for one in found.items]

    async def _asked(self, job: TFJob, missing: Set[str]) -> list[Any]:
        """Pods that a job had and no cache shows, asked of the server: a watch may be dead without knowing it."""
        kind = self.kept_as("Pod", job)
        selector, resource = f"{OURS},{name_label(job)}={job.metadata.name}", self._resources[kind]
        listing = await self.client.list(resource, job.metadata.namespace, label_selector=selector, type=msgspec.Raw)
        found = []
        for child in map(DECODERS[kind], listing.items):
            if owner_uid(child) == job.metadata.uid and child.metadata.name in missing:
                self._writes.created(job.metadata.uid, child)
                found.append(child)
        return found

    # --- what the caches tell -----------------------------------------------------------------------------------

    def _job_changed(self, before: CachedJob | None, after: CachedJob | None) -> None:
        known = after or before
        assert known is not None
        if not self._writes.seen_job(known.key, after):
            self._touch(known.key)

    def _child_changed(self, before: AnyChild | None, after: AnyChild | None) -> None:
        known = after or before
        assert known is not None
        self._writes.seen(owner_uid(known) or "", before, after)
        # By name and not by owner: the end of an earlier job's child is what the next of that name waits for.
        key = job_key(known)
        if key is None or (before is not None and after is not None and not differ(before, after)):
            return
        if has_just_started(before, after):
            self._touch_soon(key)
        else:
            self._touch(key)

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if before is not None and after is not None and before.ready == after.ready:
            return
        known = after or before
        assert known is not None
        name = known.metadata.name
        lost = self._lost_nodes - {name}
        self._lost_nodes = lost | {name} if after is not None and not after.ready else lost
        for pod in self.pods.all():
            if pod.spec.get("nodeName") == name and (key := job_key(pod)):
                self._touch(key)

    def _touch(self, key: Key) -> None:
        if timer := self._soon.pop(key, None):
            timer.cancel()
        self._changed[key] = None
        self._wake.set()

    def _touch_soon(self, key: Key) -> None:
        if key not in self._soon and key not in self._changed:
            self._soon[key] = asyncio.get_running_loop().call_later(START_SECONDS, self._touch, key)

    def _listed(self, kind: str, version: str) -> None:
        """Looks again at jobs whose children went while nobody watched."""
        self._touch_owners(set(self._writes.missed(kind, version)))

    async def _sweep(self) -> None:
        """Looks again at jobs whose children never showed."""
        while True:
            await asyncio.sleep(self.client.durations.sweep.total_seconds())
            self._touch_owners(set(self._writes.expired()))

    def _touch_owners(self, owners: Set[str]) -> None:
        if owners:
            for store in self.jobs.values():
                for job in store.all():
                    if job.metadata.uid in owners:
                        self._touch(job.key)

    # --- by kind ------------------------------------------------------------------------------------------------

    async def _is_ours(self, child: AnyChild) -> bool:
        """Whether the object that has the name belongs to the same job; asked of the server, not of a cache."""
        path = self._resources[child.kind].object_path(child.metadata.namespace, child.metadata.name)
        try:
            answer = await self.client.request("GET", path)
        except errors.NotFound:
            return True  # gone again: the next pass makes it
        found = DECODERS[child.kind](answer)
        ours = owner_uid(found) == owner_uid(child)
        if ours and self._shown(found) is None:
            self._writes.created(owner_uid(found) or "", found)
        return ours

    def _cached(self, key: Key) -> CachedJob | None:
        jobs = self.jobs.get(key.kind)
        return jobs.get(key.namespace, key.name) if jobs is not None else None

    def _wraps(self, key: Key, uid: str) -> bool:
        """Whether the pod of that name is one in a Job."""
        wrapping = self._stores["Job"].get(key.namespace, key.name) if "Job" in self._stores else None
        return wrapping is not None and wrapping.metadata.uid == uid

    def _shown(self, child: AnyChild) -> AnyChild | None:
        """The very child that a cache shows already, if it does."""
        shown = self._stores[child.kind].get(child.metadata.namespace, child.metadata.name)
        return shown if shown is not None and shown.metadata.uid == child.metadata.uid else None


def _missing(job: TFJob, shown: Sequence[AnyChild]) -> Set[str]:
    """The names of pods that the status remembers and nothing shows."""
    if not job.status.started:
        return frozenset()
    expected = members(job.status.started) - members(job.status.completed_indexes)
    names = {child_name(job, task.type, task.index) for task in expected}
    return names - {child.metadata.name for child in shown}


def has_just_started(before: AnyChild | None, after: AnyChild | None) -> bool:
    """Whether all that happened to a pod is that it runs now."""
    return (
        isinstance(before, Pod)
        and isinstance(after, Pod)
        and (before.status.phase, after.status.phase) == ("Pending", "Running")
        and after.metadata.deletion_timestamp is None
    )


def owner_uid(child: AnyChild) -> str | None:
    """The uid of the job that a child belongs to."""
    return next((owner.uid for owner in child.metadata.owner_references if owner.controller), None)


def job_key(child: AnyChild) -> Key | None:
    """The job that a child, or the pod of a child, belongs to by its labels, else by its owner."""
    namespace, labels = child.metadata.namespace, child.metadata.labels
    if name := labels.get(JOB_NAME_LABEL):
        return Key(namespace, name)
    if FIRST_LABEL in labels and (name := labels.get(TF_JOB_NAME_LABEL)):
        return Key(namespace, name, TF_JOB)
    owners = (owner for owner in child.metadata.owner_references if owner.kind in JOB_KINDS)
    return next((Key(namespace, owner.name, owner.kind) for owner in owners), None)


def is_of_tf_job(child: AnyChild) -> bool:
    """Whether a TfJob owns it."""
    return any(owner.kind == TF_JOB for owner in child.metadata.owner_references)


def differ(before: AnyChild, after: AnyChild) -> bool:
    """Whether a change can matter; a pod's labels and versions change without its state."""
    if isinstance(before, Pod) and isinstance(after, Pod) and before.status != after.status:
        return True
    if isinstance(before, PodGroup) and isinstance(after, PodGroup):
        if (before.status, before.spec) != (after.status, after.spec):
            return True
    elif isinstance(before, Deployment | Job) and isinstance(after, Deployment | Job) and before.status != after.status:
        return True
    return (before.metadata.uid, before.metadata.deletion_timestamp) != (
        after.metadata.uid,
        after.metadata.deletion_timestamp,
    )


def refused(error: ApiError) -> Refused | None:
    """The refusal that an answer means; None for an answer that has nothing to do with the child."""
    reason = _reason(error)
    return Refused(reason, error.message) if reason else None


def _reason(error: ApiError) -> str:
    if isinstance(error, Invalid) or error.code == TOO_LARGE:
        return INVALID
    if isinstance(error, NotFound):
        return NO_NAMESPACE
    if "denied the request" in error.message:
        # An admission webhook may choose any code for its no.
        return DENIED
    if isinstance(error, Forbidden):
        return _reason_of_forbidden(error)
    return INVALID if error.code == BAD_REQUEST else ""


def _reason_of_forbidden(error: Forbidden) -> str:
    causes = [cause.reason for cause in error.details.causes or ()]
    if TERMINATING in causes:
        return TERMINATING
    if "exceeded quota" in error.message:
        return QUOTA
    if re.search(r" cannot (create|update|patch) resource ", error.message):
        # The operator's own rights: they may be repaired while the job waits.
        return NOT_ALLOWED
    return DENIED
