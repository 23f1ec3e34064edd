"""Wait until a cluster has applied a change, and report the reason if it does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

from tfjob.api.objects import Pod
from tfjob.api.resources import CRDS, DEPLOYMENTS, PODS, Resource
from tfjob.kube.access.errors import KubeError, NotFound
from tfjob.kube.client.client import Client

Object = Mapping[str, Any]
Check = Callable[[], Awaitable[str | None]]
"""What is still missing; None when nothing is."""

POLL_SECONDS = 0.5


class NotReady(KubeError):
    """The cluster did not apply a change in time."""


async def until(check: Check, failure: str, patience: timedelta) -> None:
    """Repeat a check until nothing is missing. Raises NotReady with `failure` and the last answer after `patience`."""
    seconds = patience.total_seconds()
    end = time.monotonic() + seconds
    while (reason := await check()) is not None:
        if time.monotonic() > end:
            raise NotReady(f"{failure} after {seconds:g} s" + (f": {reason}" if reason else ""))
        await asyncio.sleep(POLL_SECONDS)


async def established(client: Client, crd: str) -> str | None:
    conditions = _conditions(await client.get(CRDS, "", crd))
    if conditions.get("Established", {}).get("status") == "True":
        return None
    return "; ".join(one.get("message", "") for one in conditions.values() if one.get("status") == "False")


async def gone(client: Client, resource: Resource, namespace: str, name: str) -> str | None:
    try:
        await client.get(resource, namespace, name)
    except NotFound:
        return None
    return "it still exists"


async def rolled_out(client: Client, namespace: str, name: str) -> str | None:
    """Check that every pod of a Deployment has the current template and is available, and that no old pod is left."""
    found = await client.get(DEPLOYMENTS, namespace, name)
    status, wanted = found.get("status", {}), found["spec"].get("replicas", 1)
    counts = [status.get(key, 0) for key in ("replicas", "updatedReplicas", "availableReplicas")]
    seen = status.get("observedGeneration", 0) >= found["metadata"]["generation"]
    return None if seen and counts == [wanted] * 3 else await _why_not(client, namespace, found)


async def _why_not(client: Client, namespace: str, deployment: Object) -> str:
    """Return what the pods of a Deployment wait for, and the messages of its conditions."""
    selector = ",".join(f"{key}={value}" for key, value in deployment["spec"]["selector"]["matchLabels"].items())
    pods = (await client.list(PODS, namespace, label_selector=selector, type=Pod)).items
    reasons = [reason for pod in pods for reason in pod.obstacles]
    reasons += [
        condition.get("message", "")
        for kind, condition in _conditions(deployment).items()
        if kind == "ReplicaFailure" or condition.get("status") != "True"
    ]
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason))


def _conditions(found: Object) -> dict[str, Object]:
    # A new CRD has `conditions: null`.
    return {one["type"]: one for one in found.get("status", {}).get("conditions") or []}
