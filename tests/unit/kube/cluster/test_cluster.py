"""What the API server's rejections mean for a job."""

from __future__ import annotations

import msgspec
import pytest

from tfjob.kube.access.errors import api_error
from tfjob.kube.cluster.cluster import rejection_reason

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
