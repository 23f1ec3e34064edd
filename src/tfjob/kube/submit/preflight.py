"""Check a job against a cluster without creating anything: the server's checks, and references to other objects."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from tfjob.api.defaults import with_defaults
from tfjob.api.pod_validation import CLAIM, CONFIG_MAP, SECRET, Reference, references
from tfjob.api.problems import Path, Problem, path_parts, path_text
from tfjob.api.resources import CLAIMS, CONFIG_MAPS, PODS, SECRETS
from tfjob.api.types import API_VERSION, TFJob
from tfjob.api.versions.registry import to_version
from tfjob.kube.access.errors import AlreadyExists, ApiError, Forbidden, NotFound
from tfjob.kube.client.client import Client
from tfjob.kube.submit.submission import apply, as_kept, create
from tfjob.plan.build.parameter_server import config_map, has_default_server
from tfjob.plan.build.pods import pod, template_of
from tfjob.plan.build.settings import Settings
from tfjob.plan.facts.tasks import Task, replicas_of

RESOURCES = {CONFIG_MAP: CONFIG_MAPS, SECRET: SECRETS, CLAIM: CLAIMS}
CANNOT = " cannot "
"""Part of the message of an RBAC rejection, unlike those of admission."""


@dataclass
class Preflight:
    """The checks of one job; `brought` are the objects of its manifest, which need not exist yet."""

    client: Client
    job: TFJob
    brought: Iterable[Mapping[str, Any]] = ()

    async def problems(self) -> list[Problem]:
        server = await self._server()
        if any(not problem.warning for problem in server):
            return server
        parts = await asyncio.gather(self._missing(), self._pods())
        return [*server, *(problem for part in parts for problem in part)]

    @property
    def _namespace(self) -> str:
        return self.job.metadata.namespace

    async def _server(self) -> list[Problem]:
        """Let the API server check schema, webhooks and permissions."""
        manifest, _ = to_version(self.job, API_VERSION)
        try:
            await create(self.client, await as_kept(self.client, manifest), dry_run=True)
        except AlreadyExists:
            return [Problem("metadata.name", "a job with this name already exists on the cluster", warning=True)]
        except ApiError as error:
            return refusals(error)
        return []

    async def _missing(self) -> list[Problem]:
        wanted: list[Reference] = []
        for kind in self.job.spec.tf_replica_specs:
            spec = template_of(self.job, kind).get("spec") or {}
            base: Path = ("spec", "tfReplicaSpecs", kind, "template", "spec")
            wanted += [one._replace(path=(*base, *one.path)) for one in references(spec)]
        documents = {(one["kind"], one["metadata"]["name"]): one for one in self.brought}
        if has_default_server(self.job):
            own = config_map(self.job)  # the operator will create it
            documents[own.kind, own.metadata.name] = {"data": own.data}
        names = {(one.kind, one.name) for one in wanted} - documents.keys()
        looked = await asyncio.gather(*(self._look(kind, name) for kind, name in sorted(names)))
        known = {**documents, **dict(zip(sorted(names), looked, strict=True))}
        problems = [problem for one in wanted if (problem := _fault(one, known[one.kind, one.name])) is not None]
        hidden = sorted({kind for (kind, _), value in known.items() if value is _HIDDEN})
        unchecked = "so tfjob cannot check whether those that the job needs exist"
        return [
            *problems,
            *(Problem("", f"you may not read {kind}s in this namespace, {unchecked}", warning=True) for kind in hidden),
        ]

    async def _look(self, kind: str, name: str) -> Mapping[str, Any] | None:
        try:
            return await self.client.get(RESOURCES[kind], self._namespace, name)
        except NotFound:
            return None
        except Forbidden:
            return _HIDDEN

    async def _pods(self) -> list[Problem]:
        """Let admission check a pod of each type: security standards, policies, classes and accounts."""
        job = with_defaults(self.job)
        kinds = [kind for kind in job.spec.tf_replica_specs if replicas_of(job, kind)]
        found = await asyncio.gather(*(self._pod(job, kind) for kind in kinds))
        return [problem for part in found for problem in part]

    async def _pod(self, job: TFJob, kind: str) -> list[Problem]:
        child = pod(job, Task(kind, 0), 1, Settings())
        body = replace(child, metadata=replace(child.metadata, owner_references=[]))
        try:
            await self.client.create(PODS, self._namespace, body, {"dryRun": "All"})
        except AlreadyExists:
            return []
        except ApiError as error:
            at = f"spec.tfReplicaSpecs.{kind}.template"
            if isinstance(error, Forbidden) and CANNOT in error.message:
                return []  # the operator creates pods with its own permissions
            if isinstance(error, Forbidden) and "exceeded quota" in error.message:
                return [Problem(at, error.message, "the job waits until the quota allows its pods", warning=True)]
            return [replace(one, path=f"{at}.{one.path}" if one.path else at) for one in refusals(error)]
        return []


_HIDDEN: Mapping[str, Any] = {}
"""An object that we may not read."""


async def object_problems(client: Client, document: dict[str, Any], namespace: str) -> list[Problem]:
    try:
        await apply(client, document, namespace, dry_run=True)
    except ApiError as error:
        return refusals(error)
    return []


def refusals(error: ApiError) -> list[Problem]:
    causes = [cause for cause in error.details.causes or () if cause.field]
    if not causes:
        return [Problem("", error.message)]
    return [Problem(_path(cause.field), cause.message) for cause in causes]


def _path(field: str) -> str:
    """Convert a field of the API server: `spec.containers[0].image`, or `<nil>`."""
    try:
        return path_text(path_parts(field)) if field != "<nil>" else ""
    except ValueError:
        return field


def _fault(one: Reference, found: Mapping[str, Any] | None) -> Problem | None:
    if found is None:
        hint = f"create it, or add it to the manifest file as a separate document of kind {one.kind}"
        return Problem(path_text(one.path), f"{one.kind} '{one.name}' does not exist on the cluster", hint)
    if found is _HIDDEN or one.kind == CLAIM:
        return None
    keys = {*(found.get("data") or {}), *(found.get("stringData") or {}), *(found.get("binaryData") or {})}
    missing = [key for key in one.keys if key not in keys]
    if not missing:
        return None
    known = f"its keys are {', '.join(sorted(keys))}" if keys else "it has no keys"
    return Problem(path_text(one.path), f"{one.kind} '{one.name}' has no key '{missing[0]}'", known)
