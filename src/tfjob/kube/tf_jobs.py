"""What the operator writes into a TfJob: its defaults, and the random id that names all of its children."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Set
from random import SystemRandom
from typing import Any

import msgspec
from msgspec.structs import replace

from tfjob.api.completion import completed
from tfjob.api.names import RUNTIME_ALPHABET, child_name
from tfjob.api.types import RUNTIME_ID, TFJob
from tfjob.api.v1alpha1 import canonical_spec
from tfjob.kube.cached import CachedJob
from tfjob.kube.client import Client
from tfjob.kube.errors import NotFound
from tfjob.kube.jobs import difference
from tfjob.kube.resources import CONFIG_MAPS, DEPLOYMENTS, JOBS, SERVICES, TF_JOBS, Resource
from tfjob.plan.parameter_server import DEFAULT_TF_IMAGE
from tfjob.plan.tasks import desired

LENGTH = 4
AT_ONCE = 10
_random = SystemRandom()


class _Recorded(msgspec.Struct):
    runtime_id: str = msgspec.field(default="", name="RuntimeId")


def drawn() -> str:
    """Four characters."""
    return "".join(_random.choices(RUNTIME_ALPHABET, k=LENGTH))


async def complete(client: Client, job: TFJob, cached: CachedJob, others: Iterable[CachedJob], tf_image: str) -> bool:
    """Writes what is missing over the version that was read; whether anything was.

    `others` are the TfJobs of the namespace, `tf_image` is the operator's for jobs that name none.
    """
    metadata = job.metadata
    runtime_id = job.status.runtime_id
    if not runtime_id:
        used = {_recorded(other) for other in others if other.metadata.uid != metadata.uid}
        given = metadata.annotations.get(RUNTIME_ID, "").lower()
        # The id of another job is that of the job whose manifest was copied.
        runtime_id = given if given and given not in used else await draw(client, job, used)
    stored = msgspec.json.decode(cached.spec, type=dict[str, Any])
    patch = difference(stored, completed(canonical_spec(stored), runtime_id, tf_image or DEFAULT_TF_IMAGE))
    if patch:
        body = {"metadata": {"resourceVersion": metadata.resource_version}, "spec": patch}
        await client.patch(TF_JOBS, metadata.namespace, metadata.name, body)
    return bool(patch)


async def draw(client: Client, job: TFJob, used: Set[str], draw_one: Callable[[], str] = drawn) -> str:
    """An id that no other TfJob of the namespace has, and under whose names nothing exists."""
    while True:
        runtime_id = draw_one()
        if runtime_id not in used and not await _is_taken(client, job, runtime_id):
            return runtime_id


def _recorded(cached: CachedJob) -> str:
    """The id in a stored spec; of one that somebody spelt in another way nothing is known until it is completed."""
    return msgspec.json.decode(cached.spec, type=_Recorded).runtime_id.lower()


async def _is_taken(client: Client, job: TFJob, runtime_id: str) -> bool:
    """Whether an object has a name that a child would get; asked of the server, for it may be anybody's."""
    remaining = _names(job, runtime_id)
    found = asyncio.Event()

    async def look() -> None:
        for resource, name in remaining:
            if found.is_set():
                return
            try:
                await client.request("GET", resource.object_path(job.metadata.namespace, name))
            except NotFound:
                continue
            found.set()

    await asyncio.gather(*(look() for _ in range(AT_ONCE)))
    return found.is_set()


def _names(job: TFJob, runtime_id: str) -> Iterator[tuple[Resource, str]]:
    named = replace(job, status=replace(job.status, runtime_id=runtime_id))
    for task in desired(job):
        name = child_name(named, task.type, task.index)
        yield JOBS, name
        yield SERVICES, name
    yield CONFIG_MAPS, f"cm-ps-{runtime_id}"
    yield DEPLOYMENTS, f"tensorboard-{runtime_id}"
    yield SERVICES, f"tensorboard-{runtime_id}"
