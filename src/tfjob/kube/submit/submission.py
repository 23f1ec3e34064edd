"""Submit a manifest to an API server: its objects, then its jobs; all of them or none."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfjob.api.dialect import DIALECTS, JOB_KINDS
from tfjob.api.resources import CLAIMS, CONFIG_MAPS, DEPLOYMENTS, SECRETS, SERVICES
from tfjob.api.types import API_VERSION, ORIGIN, TFJOBS, TFJob
from tfjob.api.versions.round_trip import converted
from tfjob.jobs.find import NameInUse
from tfjob.kube.access.errors import AlreadyExists, ApiError, Conflict, KubeError, NotFound
from tfjob.kube.client.client import FIELD_MANAGER, Client
from tfjob.kube.jobs import jobs
from tfjob.kube.jobs.jobs import state_of

BESIDE = {resource.kind: resource for resource in (CONFIG_MAPS, SECRETS, CLAIMS, SERVICES, DEPLOYMENTS)}
"""The kinds that a manifest may contain with or without jobs."""
REPLACEMENTS = 5
"""Attempts to replace a ConfigMap that belonged to a deleted job."""


@dataclass(frozen=True)
class Submission:
    """Jobs as the cluster stores them, and the objects of their manifest; `namespace` is for objects without one.

    `config_maps` are those that each job will own.
    """

    manifests: Sequence[dict[str, Any]]
    objects: Sequence[dict[str, Any]]
    namespace: str
    config_maps: Sequence[Sequence[dict[str, Any]]]


class Interrupted(Exception):
    """The submission was cancelled; either all jobs exist, or none."""

    def __init__(self, made: Sequence[TFJob] = ()) -> None:
        super().__init__(", ".join(job.metadata.name for job in made))
        self.made = made


async def submit(client: Client, submission: Submission) -> list[TFJob]:
    """Create everything. If a name is taken or the API server rejects a job, raise before creating anything.

    Raises Interrupted if cancelled; a creation that has begun is completed first.
    """
    try:
        await _check(client, submission)
    except asyncio.CancelledError:
        raise Interrupted from None
    creating = asyncio.create_task(_create_all(client, submission))
    try:
        return await asyncio.shield(creating)
    except asyncio.CancelledError:
        # Finish: half a submission would be worse, and only the answers show what exists.
        raise Interrupted(await creating) from None


async def _check(client: Client, submission: Submission) -> None:
    for document in submission.objects:
        if document["kind"] == DEPLOYMENTS.kind:
            await apply(client, document, submission.namespace, dry_run=True)
    for manifest in submission.manifests:
        await refuse_if_in_use(client, manifest["metadata"]["namespace"], manifest["metadata"]["name"])
    for manifest in submission.manifests:
        await create(client, manifest, dry_run=True)


async def _create_all(client: Client, submission: Submission) -> list[TFJob]:
    for document in submission.objects:
        await apply(client, document, submission.namespace)
    made: list[TFJob] = []
    try:
        for manifest, config_maps in zip(submission.manifests, submission.config_maps, strict=True):
            job = await create(client, manifest)
            made.append(job)
            # After the job, which owns them: its deletion, or that of a submission that failed, deletes them too.
            await asyncio.gather(
                *(_create_owned(client, owned(one, manifest, job.metadata.uid)) for one in config_maps)
            )
    except KubeError:
        for job in made:
            await client.delete(jobs.resource_of(job), job.metadata.namespace, job.metadata.name, uid=job.metadata.uid)
        raise
    return made


def owned(config_map: dict[str, Any], job: dict[str, Any], uid: str) -> dict[str, Any]:
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": job["metadata"]["name"], "uid": uid}
    return {**config_map, "metadata": {**config_map["metadata"], "ownerReferences": [owner]}}


async def _create_owned(client: Client, config_map: dict[str, Any]) -> None:
    metadata = config_map["metadata"]
    namespace, name, (owner,) = metadata["namespace"], metadata["name"], metadata["ownerReferences"]
    for _ in range(REPLACEMENTS):
        try:
            await client.create(CONFIG_MAPS, namespace, config_map, {"fieldManager": FIELD_MANAGER})
            return
        except AlreadyExists:
            # A deleted job had this name and these files, and the garbage collector may delete them at any time.
            with contextlib.suppress(NotFound, Conflict):
                found = await client.get(CONFIG_MAPS, namespace, name)
                if any(one["uid"] == owner["uid"] for one in found["metadata"].get("ownerReferences", ())):
                    return
                await client.delete(CONFIG_MAPS, namespace, name, uid=found["metadata"]["uid"])
    raise KubeError(f"ConfigMap {name} already exists, and another program creates it again", "Delete it.")


async def refuse_if_in_use(client: Client, namespace: str, name: str) -> None:
    """Raise NameInUse if a job has this name, even a finished one: others may want to see it."""
    found = await jobs.get(client, namespace, name)
    if found is not None:
        raise NameInUse(name, namespace, state_of(found), found.metadata.creation_timestamp)


async def as_kept(client: Client, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a v1 manifest as the cluster stores such a job: in its original kind, if the cluster serves that."""
    kept = as_kept_in_own_kind(manifest)
    own = JOB_KINDS[kept["kind"]]
    return kept if kept is manifest or await client.serves(own) else manifest


def as_kept_in_own_kind(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a v1 manifest in the kind that it was written for."""
    written_for = (manifest["metadata"].get("annotations") or {}).get(ORIGIN)
    dialect = DIALECTS.get(written_for or API_VERSION)
    return converted(manifest, dialect.api_version) if dialect and dialect.resource != TFJOBS else manifest


async def create(client: Client, manifest: dict[str, Any], *, dry_run: bool = False) -> TFJob:
    namespace = manifest["metadata"]["namespace"]
    params = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
    kind = manifest["kind"]
    try:
        return jobs.read_job(kind, await client.create(JOB_KINDS[kind], namespace, manifest, params))
    except NotFound as error:
        if error.details.kind == "namespaces":
            raise KubeError(
                f"namespace '{namespace}' does not exist", f"Create it: kubectl create namespace {namespace}"
            ) from None
        raise jobs.NoTFJobs(client) from None


async def apply(client: Client, document: dict[str, Any], namespace: str, *, dry_run: bool = False) -> None:
    """Create or update an object of the manifest that is not a job."""
    metadata = document["metadata"]
    resource, name = BESIDE[document["kind"]], metadata["name"]
    where = metadata.get("namespace") or namespace
    try:
        params = {"dryRun": "All"} if dry_run else {}
        await client.patch(resource, where, name, applied(document), kind="apply", params=params)
    except ApiError as error:
        error.message = f"{document['kind']} {name}: {error.message}"
        raise


def applied(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with `stringData` encoded: a later apply could not remove keys of `stringData`."""
    if document["kind"] != "Secret" or not document.get("stringData"):
        return document
    plain = {key: base64.b64encode(str(text).encode()).decode() for key, text in document["stringData"].items()}
    kept = {key: value for key, value in document.items() if key != "stringData"}
    return {**kept, "data": {**(document.get("data") or {}), **plain}}
