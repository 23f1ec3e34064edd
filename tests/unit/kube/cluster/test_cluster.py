"""What the API server's rejections mean for a job, and the children that a lagging cache does not show."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from support.kube.api_server import ApiServer, reply
from support.plan.builders import job, pod, status
from tfjob.api.objects import OwnerReference, Pod, PodStatus
from tfjob.controller.kind import Key
from tfjob.kube.access.errors import api_error
from tfjob.kube.client.client import Client
from tfjob.kube.cluster.cluster import KubeCluster, rejection_reason
from tfjob.kube.cluster.event_log import EventLog
from tfjob.plan.kind import TFJobKind

QUOTA = 'pods "j-worker-0" is forbidden: exceeded quota: small, requested: pods=1, used: pods=4, limited: pods=4'
SECURITY = 'pods "j-worker-0" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false'
RIGHTS = 'pods is forbidden: User "system:serviceaccount:a:b" cannot create resource "pods" in API group "" in the ...'
WEBHOOK = 'admission webhook "policy.example.com" denied the request: images must come from our registry'


@pytest.mark.parametrize(
    ("code", "reason", "message", "expected"),
    [
        (422, "Invalid", "spec.containers[0].image: Required value", "Invalid"),
        (400, "BadRequest", "Pod in version v1 cannot be handled as a Pod: json: cannot unmarshal", "Invalid"),
        (413, "RequestEntityTooLarge", "limit is 3145728", "Invalid"),
        (403, "Forbidden", QUOTA, "QuotaExceeded"),
        (403, "Forbidden", SECURITY, "Denied"),
        (403, "Forbidden", RIGHTS, "Forbidden"),
        (400, "", WEBHOOK, "Denied"),
        (403, "Forbidden", WEBHOOK, "Denied"),
        (404, "NotFound", 'namespaces "gone" not found', "NamespaceNotFound"),
    ],
)
def test_an_error_about_the_child_is_a_rejection_with_a_reason(
    code: int, reason: str, message: str, expected: str
) -> None:
    body = msgspec.json.encode({"kind": "Status", "code": code, "reason": reason, "message": message})
    assert rejection_reason(api_error(code, body)) == expected


def test_a_terminating_namespace_is_recognized_by_its_cause() -> None:
    body = msgspec.json.encode(
        {
            "code": 403,
            "reason": "Forbidden",
            "message": 'pods "x" is forbidden: namespace n is being terminated',
            "details": {"causes": [{"reason": "NamespaceTerminating", "message": "namespace n is being terminated"}]},
        }
    )
    assert rejection_reason(api_error(403, body)) == "NamespaceTerminating"


@pytest.mark.parametrize("code", [401, 409, 429, 500, 503, 504])
def test_an_error_that_is_not_about_the_child_is_not_a_rejection(code: int) -> None:
    assert rejection_reason(api_error(code, b"{}")) == ""


def test_a_listing_for_a_missing_pod_also_refreshes_its_peers() -> None:
    """A watch lags: it shows a worker that runs, and no chief, which the server shows after the worker's end."""
    owner = job(chief=1, worker=1, status=status(started={"Chief": "0", "Worker": "0"}))

    def stored(name: str, phase: str) -> Pod:
        built = pod(owner, name).pod
        reference = OwnerReference(kind="TFJob", name=owner.metadata.name, uid=owner.metadata.uid, controller=True)
        metadata = replace(built.metadata, uid=name, owner_references=[reference])
        return replace(built, metadata=metadata, status=PodStatus(phase=phase))

    listed: dict[str, Any] = {"metadata": {}, "items": [stored(name, "Succeeded") for name in ("chief-0", "worker-0")]}

    async def run() -> dict[str, str]:
        answer = reply(msgspec.to_builtins(listed))
        async with ApiServer(otherwise=answer) as server, Client(server.access()) as client:
            cluster = KubeCluster(client, EventLog(client), [TFJobKind()])
            cluster.pods.put(stored("worker-0", "Running"))
            key = Key(owner.metadata.namespace, owner.metadata.name, "TFJob")
            return {one.metadata.uid: one.status.phase for one in await cluster.children(Pod, key, owner)}

    assert asyncio.run(run()) == {"chief-0": "Succeeded", "worker-0": "Succeeded"}
