"""Jobs of an API server one at a time, as commands read and edit them; the operator has caches instead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from tfjob.api.types import TFJob
from tfjob.controller.cluster import InvalidJob
from tfjob.kube.cached import CachedJob, decode_job, job_of
from tfjob.kube.client import Client
from tfjob.kube.errors import Conflict, Forbidden, KubeError, NotFound
from tfjob.kube.resources import TFJOBS

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


async def get(client: Client, namespace: str, name: str) -> TFJob | None:
    """The job of that name, with its defaults; None when there is none. Raises NoTFJobs."""
    try:
        answer = await client.request("GET", TFJOBS.object_path(namespace, name))
    except NotFound as error:
        if error.details.name != name:
            raise NoTFJobs(client) from None
        return None
    return readable(decode_job(answer))


async def every(client: Client, namespace: str = "") -> list[TFJob]:
    """The jobs of a namespace or, without one, of all; the newest last. Raises NoTFJobs."""
    try:
        found = await client.list(TFJOBS, namespace, type=msgspec.Raw)
    except NotFound:
        raise NoTFJobs(client) from None
    jobs = [readable(decode_job(item)) for item in found.items]
    return sorted(jobs, key=lambda job: (str(job.metadata.creation_timestamp), job.metadata.name))


async def namespaces_with(client: Client, name: str) -> set[str]:
    """Where jobs of that name are, as far as we may look; without a name, any jobs."""
    with suppress(Forbidden):
        return {job.metadata.namespace for job in await every(client) if name in ("", job.metadata.name)}
    return set()


async def edit(client: Client, job: TFJob, change: Edit) -> TFJob:
    """Applies `change` to the job as it is now; only what differs is sent, so that unknown fields stay."""
    namespace, name, uid = job.metadata.namespace, job.metadata.name, job.metadata.uid
    for tries in range(1, EDIT_TRIES + 1):
        old = msgspec.json.decode(await client.request("GET", TFJOBS.object_path(namespace, name)), type=TFJob)
        if old.metadata.uid != uid:
            raise Conflict(409, "Conflict", f"another job has the name {name} by now")
        patch = difference(msgspec.to_builtins(old), msgspec.to_builtins(change(old)))
        if not patch:
            return readable(decode_job(msgspec.json.encode(old)))
        patch.setdefault("metadata", {})["resourceVersion"] = old.metadata.resource_version
        try:
            return readable(decode_job(await client.patch(TFJOBS, namespace, name, patch)))
        except Conflict:
            if tries == EDIT_TRIES:
                raise
    raise AssertionError("unreachable")


def difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The merge patch that makes `new` of `old`; an object that is empty now may hold what we do not know of."""
    patch: dict[str, Any] = {}
    for key in {**old, **new}:
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and (isinstance(after, dict) or after is None):
            if inner := difference(before, after or {}):
                patch[key] = inner
        elif before != after:
            patch[key] = after
    return patch


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
            client.opened(TFJOBS.path(job.metadata.namespace), params, idle=seconds) as chunks,
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
