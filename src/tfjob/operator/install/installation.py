"""Install the operator on a cluster, and remove it again.

    await Installation(client, settings, print).install()

Objects are applied on the server side, so fields that others added stay. Only objects with our label are removed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec

from tfjob.api import resources
from tfjob.api.crd.older import TF_JOB_CRD_NAME as TF_JOB_CRD_NAME
from tfjob.api.crd.tfjob import NAME as CRD_NAME
from tfjob.api.crd.tfjob import OWNER_LABEL
from tfjob.api.dialect import JOB_KINDS, TF_JOBS
from tfjob.api.resources import CRDS, DEPLOYMENTS, LEASES, NAMESPACES, VALIDATING_WEBHOOKS, Resource
from tfjob.api.types import TFJOBS
from tfjob.durations import durations_from
from tfjob.kube.access import config
from tfjob.kube.access.errors import Forbidden, KubeError, NotFound
from tfjob.kube.client.client import Client
from tfjob.kube.client.version import server_version, version_problem
from tfjob.operator.install import handover, rbac
from tfjob.operator.install.handover import Step
from tfjob.operator.install.manifests import Object, manifests, own_namespace
from tfjob.operator.install.rollout import established, gone, rolled_out, until
from tfjob.operator.options import LEASE_NAME, MAKE_CRDS, NAME, NAMESPACE, Settings

KINDS = {one.kind: one for one in vars(resources).values() if isinstance(one, Resource)}


class Refused(KubeError):
    """The cluster does not meet a requirement; nothing was changed."""


def on_cluster(
    context: str | None,
    settings: Settings,
    say: Callable[[str], None],
    work: Callable[[Installation], Coroutine[Any, Any, None]],
) -> None:
    """Run `work` with an installation on the cluster of a context. Raises KubeError."""
    access = config.load(context)

    async def connected() -> None:
        async with Client(access, durations=durations_from(os.environ)) as client:
            await work(Installation(client, settings, say))

    asyncio.run(connected())


class Installation:
    """One operator on one cluster; `say` is called with each step."""

    def __init__(self, client: Client, settings: Settings, say: Callable[[str], None]) -> None:
        self.client = client
        self.settings = settings
        self.say = say

    async def install(self, *, take_over: bool = False) -> None:
        """Apply everything. Raises Refused if the cluster is too old or another operator handles TFJobs."""
        if problem := version_problem(await server_version(self.client)):
            raise Refused(problem)
        if self.settings.namespace_only and not any([await self.client.serves(one) for one in (TFJOBS, TF_JOBS)]):
            raise Refused(
                "the cluster has no CRD of TFJob, and an operator of one namespace cannot create it",
                f"Ask an administrator to run: {MAKE_CRDS}",
            )
        await self._hand_over(await self._others(), allowed=take_over)
        await self._ensure_namespace()
        if not self.settings.api_versions.older and not self.settings.namespace_only:
            await self._serve_v1_alone()
        for one in manifests(self.settings):
            await self.client.patch(*_place(one), one, "apply", params={"force": "true"})
            self.say(f"applied {_said(one)}")
            if one["kind"] == "CustomResourceDefinition":
                name = one["metadata"]["name"]
                patience = self.client.durations.crd_served
                await until(partial(established, self.client, name), f"the CRD {name} is not served", patience)

    async def wait_until_ready(self, patience: timedelta) -> None:
        self.say(f"waiting for the Deployment {NAME} in namespace {self.settings.namespace}")
        ready = partial(rolled_out, self.client, self.settings.namespace, NAME)
        await until(ready, f"the Deployment {NAME} is not ready", patience)

    async def uninstall(self) -> None:
        """Remove the operator; the CRD, the jobs, the rights of users and the namespace stay."""
        kept = {_said(one) for one in self._last_to_go()}
        for one in reversed(manifests(self.settings)):
            if _said(one) not in kept:
                await self._delete(one)
        if not self.settings.namespace_only:
            await self._serve_v1_alone()
        with suppress(NotFound):  # the Lease has no label, because the operator created it
            await self.client.delete(LEASES, self.settings.namespace, LEASE_NAME)
            self.say(f"deleted Lease {LEASE_NAME}")

    async def purged(self) -> tuple[list[Object], list[str]]:
        """Return what `purge` would delete: our objects, and the jobs that go with the CRD."""
        found = [one for one in self._last_to_go() if await self._ours(one) is not None]
        if not any(one["kind"] == "CustomResourceDefinition" for one in found):
            return found, []
        jobs: list[str] = []
        for kind, resource in JOB_KINDS.items():
            with suppress(NotFound):
                owners = [job["metadata"] for job in (await self.client.list(resource, type=dict)).items]
                jobs += [f"{kind} {owner['namespace']}/{owner['name']}" for owner in owners]
        return found, jobs

    async def purge(self, objects: Iterable[Object]) -> None:
        for one in objects:
            await self._delete(one)

    def _last_to_go(self) -> list[Object]:
        """Return the objects that jobs and their users need even without an operator; none is in a namespace."""
        if self.settings.namespace_only:
            return []
        crds = [{"kind": CRDS.kind, "metadata": {"name": name}} for name in (CRD_NAME, TF_JOB_CRD_NAME)]
        users = rbac.for_users(self.settings.api_versions.groups)
        return [*crds, *users, *([own_namespace()] if self.settings.namespace == NAMESPACE else [])]

    async def _serve_v1_alone(self) -> None:
        """Remove the older versions from the CRD, because no operator converts them any more.

        Applying the CRD is not enough: the operator owns its certificate, which would stay without a webhook.
        """
        try:
            found = await self.client.get(CRDS, "", CRD_NAME)
        except NotFound:
            return
        if not _has_our_label(found) or (found["spec"].get("conversion") or {}).get("strategy") != "Webhook":
            return
        versions = [one for one in found["spec"]["versions"] if one["storage"]]
        body = {"spec": {"versions": versions, "conversion": {"strategy": "None", "webhook": None}}}
        await self.client.patch(CRDS, "", CRD_NAME, body)
        self.say(f"removed the older versions from CustomResourceDefinition {CRD_NAME}; it now serves only v1")

    async def _others(self) -> list[Step]:
        place, restricted = self.settings.namespace, self.settings.namespace_only
        if not self.settings.api_versions.kubeflow:
            return []  # TFJobs may stay with another operator
        try:
            deployments = await self._deployments()
            webhooks = [] if restricted else (await self.client.list(VALIDATING_WEBHOOKS, type=dict)).items
        except Forbidden:
            self.say("note: you do not have permission to check whether another operator manages TFJobs")
            return []
        if other := handover.ours_elsewhere(deployments, place, one_namespace=restricted):
            raise Refused(
                f"the operator is already installed in namespace {other}; two operators would manage the same jobs",
                f"To upgrade it, install with --namespace {other}\n"
                f"To move it, remove it there first: tfjob operator uninstall --namespace {other}",
            )
        if restricted:
            deployments = [one for one in deployments if one["metadata"]["namespace"] == place]
        served = b"{}"
        with suppress(NotFound):
            served = await self.client.request("GET", "/apis/kubeflow.org/v1")
        kinds = {one["kind"] for one in msgspec.json.decode(served).get("resources", ())}
        return handover.steps(deployments, webhooks, kinds, place)

    async def _deployments(self) -> list[Object]:
        """Return the Deployments of the cluster, or of one namespace if the user may not list them all."""
        try:
            return (await self.client.list(DEPLOYMENTS, type=dict)).items
        except Forbidden:
            if not self.settings.namespace_only:
                raise
            return (await self.client.list(DEPLOYMENTS, self.settings.namespace, type=dict)).items

    async def _hand_over(self, steps: list[Step], *, allowed: bool) -> None:
        if steps and not allowed:
            commands = "\n".join(f"  {step.command}" for step in steps)
            raise Refused(
                "; ".join(step.said for step in steps),
                "Two operators must not manage the same jobs. These commands make the other one leave TFJobs alone:\n"
                f"{commands}\n"
                "`tfjob operator install --take-over` runs them and then installs.",
            )
        for step in steps:
            self.say(f"running: {step.command}")
            if step.patch is None:
                await self.client.delete(step.resource, step.namespace, step.name, propagation="Foreground")
            else:
                await self.client.patch(step.resource, step.namespace, step.name, step.patch, "json")
        patience = self.client.durations.handover
        for step in steps:
            # Our operator must not start before the last pod of the other one has ended.
            place = (step.namespace, step.name)
            if step.patch is None:
                check = partial(gone, self.client, step.resource, *place)
                await until(check, f"the {step.resource.kind} {step.name} is not deleted", patience)
            elif step.resource == DEPLOYMENTS:
                check = partial(rolled_out, self.client, *place)
                await until(check, f"the rollout of Deployment {step.name} is not complete", patience)

    async def _ensure_namespace(self) -> None:
        """Create the namespace if it is missing; an existing one stays unchanged."""
        name = self.settings.namespace
        if name == NAMESPACE and not self.settings.namespace_only:
            return
        try:
            await self.client.get(NAMESPACES, "", name)
        except NotFound:
            await self.client.create(NAMESPACES, "", NAMESPACES.manifest({"name": name}))
            self.say(f"created Namespace {name}")
        except Forbidden:
            pass  # without the right to read the namespace, the installation may still work

    async def _delete(self, one: Object) -> None:
        found = await self._ours(one)
        if found is not None:
            await self.client.delete(*_place(one), uid=found["metadata"]["uid"], propagation="Background")
            self.say(f"deleted {_said(one)}")

    async def _ours(self, one: Object) -> Object | None:
        """Return the stored object if it exists and has our label."""
        try:
            found = await self.client.get(*_place(one))
        except NotFound:
            return None
        if _has_our_label(found):
            return found
        self.say(f"kept {_said(one)}: it does not belong to tfjob")
        return None


def _has_our_label(found: Object) -> bool:
    key, value = OWNER_LABEL
    return (found["metadata"].get("labels") or {}).get(key) == value


def _place(one: Object) -> tuple[Resource, str, str]:
    metadata = one["metadata"]
    return KINDS[one["kind"]], metadata.get("namespace", ""), metadata["name"]


def _said(one: Object) -> str:
    return f"{one['kind']} {one['metadata']['name']}"
