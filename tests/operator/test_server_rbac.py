"""What a real API server lets the operator and users do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from devcluster.client import Client
from tfjob.operator import rbac
from tfjob.operator.api_versions import ApiVersions
from tfjob.operator.manifests import Settings, own_namespace, service_account
from tfjob.operator.names import NAME, NAMESPACE

OPERATOR = f"system:serviceaccount:{NAMESPACE}:{NAME}"
WEBHOOKS = "admissionregistration.k8s.io/validatingwebhookconfigurations"

MAY = [
    ("list", "/pods"),
    ("create", "/pods"),
    ("delete", "/services"),
    ("create", "/events"),
    ("create", "/configmaps"),
    ("create", "apps/deployments"),
    ("watch", "/nodes"),
    ("delete", "kubeflow.org/tfjobs"),
    ("update", "kubeflow.org/tfjobs/status"),
    ("patch", "scheduling.x-k8s.io/podgroups"),
    ("patch", f"{WEBHOOKS}:{NAME}"),
    ("get", "apiextensions.k8s.io/customresourcedefinitions:tfjobs.kubeflow.org"),
]
MAY_NOT = [
    ("get", "/secrets"),
    ("update", "/configmaps"),
    ("update", "apps/deployments"),
    ("get", "/pods/log"),
    ("create", "/pods/exec"),
    ("update", "/pods"),
    ("create", "kubeflow.org/tfjobs"),
    ("update", "kubeflow.org/tfjobs"),
    ("patch", "kubeflow.org/tfjobs/status"),
    ("update", "scheduling.x-k8s.io/podgroups"),
    ("update", "coordination.k8s.io/leases"),
    ("patch", f"{WEBHOOKS}:kueue"),
    ("list", "apiextensions.k8s.io/customresourcedefinitions"),
    ("get", "rbac.authorization.k8s.io/clusterroles"),
]
"""In any namespace but its own."""


@pytest.fixture(scope="module")
def server(own_cluster: Client) -> Client:
    own_cluster.apply(own_namespace(), service_account(Settings(image="")), *rbac.for_cluster(NAMESPACE, ApiVersions()))
    own_cluster.kubectl("create", "namespace", "team")
    own_cluster.apply(*rbac.for_namespace("team", ApiVersions()))
    return own_cluster


def allowed(server: Client, user: str, namespace: str, asked: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """What of it the user may do."""
    reviews = [review(user, namespace, verb, what) for verb, what in asked]
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": reviews})
    answers = server.kubectl("create", "-f", "-", "-o", "jsonpath={.status.allowed} ", stdin=items).split()
    return [one for one, answer in zip(asked, answers, strict=True) if answer == "true"]


def review(user: str, namespace: str, verb: str, what: str) -> dict[str, Any]:
    """`GROUP/RESOURCE[/SUBRESOURCE][:NAME]`."""
    place, _, name = what.partition(":")
    group, resource, subresource = (*place.split("/"), "")[:3]
    attributes = {"namespace": namespace, "verb": verb, "group": group, "resource": resource}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": {**attributes, "subresource": subresource, "name": name}},
    }


def test_the_operator_may_do_what_it_needs_and_nothing_else(server: Client) -> None:
    assert allowed(server, OPERATOR, "default", [*MAY, *MAY_NOT]) == MAY


def test_the_lease_is_kept_in_the_operator_s_own_namespace(server: Client) -> None:
    lease = [("update", "coordination.k8s.io/leases:tf-operator"), ("update", "coordination.k8s.io/leases:other")]
    assert allowed(server, OPERATOR, NAMESPACE, lease) == lease[:1]


def test_an_operator_of_one_namespace_sees_no_other(server: Client) -> None:
    user = f"system:serviceaccount:team:{NAME}"
    work = [("create", "/pods"), ("update", "kubeflow.org/tfjobs/status")]
    assert allowed(server, user, "team", [*work, ("get", "/secrets")]) == work
    assert allowed(server, user, "default", [*work, ("watch", "/nodes")]) == []


@pytest.mark.parametrize(
    ("role", "verbs"),
    [("edit", ["create", "delete", "list"]), ("view", ["list"])],
)
def test_those_who_may_edit_or_view_a_namespace_may_do_so_with_jobs(
    server: Client, role: str, verbs: list[str]
) -> None:
    server.kubectl("create", "rolebinding", role, "-n", "team", f"--clusterrole={role}", f"--user=may-{role}")
    asked = [(verb, "kubeflow.org/tfjobs") for verb in ("create", "delete", "list")]
    assert [verb for verb, _ in allowed(server, f"may-{role}", "team", asked)] == verbs
