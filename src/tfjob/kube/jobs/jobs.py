"""Jobs of an API server one at a time, as commands read and edit them; the operator has caches instead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from tfjob.api.crd.older import TF_JOB_SHORT_NAME
from tfjob.api.dialect import TF_JOB, origin
from tfjob.api.types import API_VERSION, TFJob
from tfjob.api.versions.round_trip import converted
from tfjob.controller.cluster import InvalidJob
from tfjob.kube.access.errors import ApiError, Conflict, Forbidden, KubeError, NotFound
from tfjob.kube.cache.decode import JOB_DECODERS, CachedJob, job_of
from tfjob.kube.client.client import Client
from tfjob.kube.client.patches import difference, merged
from tfjob.kube.client.resources import JOB_KINDS, TF_JOBS, Resource

EDIT_TRIES = 5
RETRY_SECONDS = 1.0

Edit = Callable[[TFJob], TFJob]


class NoTFJobs(KubeError):
    """The API server has no such kind."""

    def __init__(self, client: Client) -> None:
        super().__init__(
            f"the cluster {where(client)} knows no TFJobs", "Is the operator installed? tfjob operator install"
        )


def where(client: Client) -> str:
    """How people call the cluster: `of context dev`, or by its address."""
    access = client.access
    return f"of context {access.context}" if access.context else f"at {access.server}"


def resource_of(job: TFJob) -> Resource:
    """Where an API server keeps a job that was read from it."""
    return JOB_KINDS[origin(job).owner[1]]


async def get(client: Client, namespace: str, name: str) -> TFJob | None:
    """The job of that name, with its defaults; None when there is none. Raises NoTFJobs.

    A TFJob goes before a TfJob of the same name, which `tfja/NAME` means alone.
    """
    prefix, _, bare = name.rpartition("/")
    wanted = bare if prefix == TF_JOB_SHORT_NAME else name
    kinds = {TF_JOB: TF_JOBS} if prefix == TF_JOB_SHORT_NAME else JOB_KINDS
    failures: list[ApiError] = []
    for kind, resource in kinds.items():
        try:
            answer = await client.request("GET", resource.object_path(namespace, wanted))
        except (NotFound, Forbidden) as error:
            if error.details.name != wanted or isinstance(error, Forbidden):
                failures.append(error)
        else:
            return readable(JOB_DECODERS[kind](answer))
    _raise_if_all(failures, len(kinds), client)
    return None


async def again(client: Client, job: TFJob) -> TFJob | None:
    """The job of the same kind and name as it is now."""
    resource = resource_of(job)
    try:
        answer = await client.request("GET", resource.object_path(job.metadata.namespace, job.metadata.name))
    except NotFound:
        return None
    return readable(JOB_DECODERS[resource.kind](answer))


async def every(client: Client, namespace: str = "") -> list[TFJob]:
    """The jobs of a namespace or, without one, of all; the newest last. Raises NoTFJobs."""
    jobs: list[TFJob] = []
    failures: list[ApiError] = []
    for kind, resource in JOB_KINDS.items():
        try:
            found = await client.list(resource, namespace, type=msgspec.Raw)
        except (NotFound, Forbidden) as error:
            failures.append(error)
        else:
            jobs += [readable(JOB_DECODERS[kind](item)) for item in found.items]
    _raise_if_all(failures, len(JOB_KINDS), client)
    return sorted(jobs, key=lambda job: (str(job.metadata.creation_timestamp), job.metadata.name))


def _raise_if_all(failures: Sequence[ApiError], asked: int, client: Client) -> None:
    """Most clusters have one kind of jobs, and most users rights over one: what was found there is the answer."""
    if len(failures) < asked:
        return
    for error in failures:
        if isinstance(error, Forbidden):
            raise error
    raise NoTFJobs(client)


async def has_tf_jobs(client: Client) -> bool:
    """Whether the cluster has TfJobs of tensorflow.org."""
    try:
        await client.request("GET", TF_JOBS.root)
    except NotFound:
        return False
    return True


async def namespaces_with(client: Client, name: str) -> set[str]:
    """Where jobs of that name are, as far as we may look; without a name, any jobs."""
    with suppress(Forbidden):
        return {job.metadata.namespace for job in await every(client) if name in ("", job.metadata.name)}
    return set()


async def edit(client: Client, job: TFJob, change: Edit) -> TFJob:
    """Applies `change` to the job as it is now; only what differs is sent, so that unknown fields stay."""
    namespace, name, uid, resource = job.metadata.namespace, job.metadata.name, job.metadata.uid, resource_of(job)
    decode = JOB_DECODERS[resource.kind]
    for tries in range(1, EDIT_TRIES + 1):
        answer = await client.request("GET", resource.object_path(namespace, name))
        stored = msgspec.json.decode(answer, type=dict[str, Any])
        if stored["metadata"]["uid"] != uid:
            raise Conflict(409, "Conflict", f"another job has the name {name} by now")
        patch = difference(stored, _edited(stored, change))
        if not patch:
            return readable(decode(answer))
        patch.setdefault("metadata", {})["resourceVersion"] = stored["metadata"]["resourceVersion"]
        try:
            return readable(decode(await client.patch(resource, namespace, name, patch)))
        except Conflict:
            if tries == EDIT_TRIES:
                raise
    raise AssertionError("unreachable")


def _edited(stored: dict[str, Any], change: Edit) -> dict[str, Any]:
    """A stored job of any version as it is to be."""
    hub = converted(stored, API_VERSION)
    old = msgspec.convert(hub, TFJob)
    changes = difference(msgspec.to_builtins(old), msgspec.to_builtins(change(old)))
    return converted(merged(hub, changes), stored["apiVersion"])


async def changed(client: Client, job: TFJob, seconds: float) -> None:
    """Waits until the job may be another than the one that was read, at most so long."""
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
        # Whatever it is, the next look will tell, or go well again.
        await asyncio.sleep(min(seconds, RETRY_SECONDS))


def readable(cached: CachedJob) -> TFJob:
    """The job, or as much of it as can be read where its spec is none."""
    try:
        return job_of(cached)
    except InvalidJob as invalid:
        return invalid.job
