"""Read-only checks of a cluster: its version, our CRD and operator, and the permissions of the user."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from tfjob import __version__
from tfjob.api.crd.tfjob import NAME as CRD_NAME
from tfjob.api.crd.tfjob import RELEASE, crd_problem
from tfjob.api.dialect import TF_JOBS
from tfjob.api.resources import ACCESS_REVIEWS, CRDS, DEPLOYMENTS, LEASES, Resource
from tfjob.api.types import GROUP
from tfjob.kube.access.errors import Forbidden, NotFound
from tfjob.kube.client.client import Client
from tfjob.kube.client.version import OLDEST, ServerVersion, server_version, version_problem
from tfjob.kube.jobs.jobs import where
from tfjob.operator.options import LEASE_NAME, NAME, NAMESPACE, labels

FRESH = timedelta(seconds=60)
"""A Lease that was renewed longer ago counts as free."""


@dataclass(frozen=True)
class Finding:
    """The result of one check; if it is not `ok`, the problem and how to fix it."""

    title: str
    ok: bool
    problem: str = ""
    fix: str = ""


@dataclass(frozen=True)
class Operator:
    """A Deployment of our operator; `ready` is the number of its ready pods."""

    namespace: str
    image: str
    ready: int
    replicas: int


@dataclass(frozen=True)
class Versions:
    """The release of each part; empty if unknown."""

    server: ServerVersion
    crd: str
    operators: list[Operator]
    oldest: str = ".".join(map(str, OLDEST))
    """The oldest Kubernetes that is supported."""

    @property
    def skew(self) -> str:
        """Which releases do not fit together, in one sentence; empty if all do."""
        if problem := version_problem(self.server):
            return problem
        if self.crd and self.crd != __version__:
            return f"the CRD is from tfjob {self.crd}, but this is tfjob {__version__}"
        return ""


RIGHTS = {
    "permission to view jobs": ("get tfjobs", "list tfjobs", "list pods"),
    "permission to create, change and delete jobs": ("create tfjobs", "patch tfjobs", "delete tfjobs"),
    "permission to send files with jobs": ("create configmaps",),
    "permission to watch jobs": ("watch tfjobs", "watch pods"),
    "permission to read logs": ("get pods/log",),
    "permission to read events": ("list events",),
    "permission to run commands in replicas": ("create pods/exec",),
}
"""The permissions that commands need."""


async def examine(client: Client, namespace: str) -> list[Finding]:
    """Check everything that commands need in a namespace. Raises KubeError if the API server does not answer."""
    version = await server_version(client)
    rights = asyncio.gather(*(_right(client, namespace, title, needed) for title, needed in RIGHTS.items()))
    parts = await asyncio.gather(_crd(client), _operator(client), rights)
    supported = f"its version is supported ({'.'.join(map(str, OLDEST))} or later)"
    problem = version_problem(version) or ""
    return [
        Finding(f"the API server {where(client)} answers: Kubernetes {version}", True),
        Finding(supported, not problem, problem, "Upgrade the cluster."),
        *(finding for part in parts for finding in part),
    ]


async def versions(client: Client) -> Versions:
    version, operators = await asyncio.gather(server_version(client), deployments(client))
    crd: dict[str, Any] = {}
    with suppress(Forbidden, NotFound):
        crd = await client.get(CRDS, "", CRD_NAME)
    return Versions(version, crd.get("metadata", {}).get("annotations", {}).get(RELEASE, ""), operators)


async def _crd(client: Client) -> list[Finding]:
    title = "its TFJob CRD matches this release"
    try:
        found = await client.get(CRDS, "", CRD_NAME)
    except NotFound:
        if await client.serves(TF_JOBS):
            return [Finding("it serves TfJobs of tensorflow.org", True)]
        return [Finding(title, False, f"there is no CRD {CRD_NAME}", "Install the operator: `tfjob operator install`.")]
    except Forbidden:
        return []  # the commands work without the right to read CRDs
    problem, _, fix = (crd_problem(found) or "").partition("; ")
    return [Finding(title, not problem, problem, fix)]


async def _operator(client: Client) -> list[Finding]:
    title = "an operator is running"
    found = await deployments(client)
    for operator in found:
        if operator.ready:
            return [Finding(f"{title}: {operator.image} in namespace {operator.namespace}", True)]
    holder = await _lease_holder(client)
    if holder:
        return [Finding(f"{title}: {holder} holds the Lease", True)]
    if found:
        one = found[0]
        look = f"kubectl describe pods -n {one.namespace} -l name={NAME}"
        problem = f"none of its {one.replicas} pods in namespace {one.namespace} is ready"
        return [Finding(title, False, problem, f"To see why, run: {look}")]
    problem = "you can see no Deployment of the operator, and its Lease has no holder"
    return [Finding(title, False, problem, "Install it: `tfjob operator install`, or run it: `tfjob operator run`.")]


async def deployments(client: Client) -> list[Operator]:
    """Return our operators that the user may list: in all namespaces, else in the default namespace."""
    selector = ",".join(f"{key}={value}" for key, value in labels().items())
    return [
        Operator(
            namespace=one["metadata"]["namespace"],
            image=(one["spec"]["template"]["spec"].get("containers") or [{}])[0].get("image", ""),
            ready=(one.get("status") or {}).get("readyReplicas", 0),
            replicas=one["spec"].get("replicas", 1),
        )
        for one in await _visible(client, DEPLOYMENTS, label_selector=selector)
    ]


async def _visible(client: Client, resource: Resource, **selectors: str) -> list[dict[str, Any]]:
    for namespace in ("", NAMESPACE):
        try:
            return (await client.list(resource, namespace, **selectors, type=dict)).items
        except Forbidden:
            continue
    return []


async def _lease_holder(client: Client) -> str:
    """Return the current leader, which may run outside the cluster."""
    for lease in await _visible(client, LEASES, field_selector=f"metadata.name={LEASE_NAME}"):
        spec = lease.get("spec") or {}
        renewed, holder = spec.get("renewTime"), spec.get("holderIdentity")
        if renewed and holder and datetime.now(UTC) - datetime.fromisoformat(renewed) <= FRESH:
            return str(holder)
    return ""


async def _right(client: Client, namespace: str, title: str, rights: Iterable[str]) -> Finding:
    denied = [right for right in rights if not await _may(client, namespace, right)]
    problem = f"missing in namespace {namespace}: {', '.join(denied)}" if denied else ""
    fix = (
        f"Ask for the ClusterRole edit in namespace {namespace}; installing the operator adds these permissions to it."
    )
    return Finding(title, not denied, problem, fix)


async def _may(client: Client, namespace: str, right: str) -> bool:
    verb, _, resource = right.partition(" ")
    name, _, subresource = resource.partition("/")
    group = GROUP if name == "tfjobs" else ""
    attributes = {"namespace": namespace, "verb": verb, "group": group, "resource": name, "subresource": subresource}
    review = ACCESS_REVIEWS.manifest({}, spec={"resourceAttributes": attributes})
    answer = msgspec.json.decode(await client.create(ACCESS_REVIEWS, "", review))
    return bool(answer.get("status", {}).get("allowed"))
