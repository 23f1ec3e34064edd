"""What a real API server lets the operator and users do."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from devcluster.client import Client
from support.running import wait_until
from tfjob.kube.access import config
from tfjob.kube.client import client as kube
from tfjob.operator.api_versions import ApiVersions
from tfjob.operator.install import rbac
from tfjob.operator.install.manifests import own_namespace, service_account
from tfjob.operator.options import NAME, NAMESPACE, Settings

pytestmark = pytest.mark.faults

OPERATOR = f"system:serviceaccount:{NAMESPACE}:{NAME}"
CRDS = "apiextensions.k8s.io/customresourcedefinitions"
WEBHOOKS = "admissionregistration.k8s.io/validatingwebhookconfigurations"
LEASES = "coordination.k8s.io/leases"

READ = ("get", "list", "watch")
VERBS = (*READ, "create", "update", "patch", "delete", "deletecollection")
SPECIAL = {
    "/users": ("impersonate",),
    "/groups": ("impersonate",),
    "/serviceaccounts": ("impersonate",),
    "rbac.authorization.k8s.io/roles": ("bind", "escalate"),
    "rbac.authorization.k8s.io/clusterroles": ("bind", "escalate"),
    "certificates.k8s.io/signers": ("approve", "sign", "attest"),
    "*/*": ("*", *VERBS),
}
"""What else a request can be than one of VERBS, and what no list of resources has."""

EVERYBODY = {
    f"{group}/{name}": ("create",)
    for group, names in {
        "authorization.k8s.io": ("selfsubjectaccessreviews", "selfsubjectrulesreviews"),
        "authentication.k8s.io": ("selfsubjectreviews",),
    }.items()
    for name in names
}
"""What Kubernetes lets every account ask about itself."""
NEEDS = {
    **dict.fromkeys(("/pods", "/services", "/configmaps", "apps/deployments"), (*READ, "create", "delete")),
    "/events": ("create", "patch"),
    "/nodes": READ,
    "batch/jobs": (*READ, "create", "delete"),
    "kubeflow.org/tfjobs": (*READ, "delete"),
    "kubeflow.org/tfjobs/status": ("update",),
    "kubeflow.org/tfjobs/finalizers": ("update",),
    "tensorflow.org/tfjobs": (*READ, "patch", "delete"),
    "tensorflow.org/tfjobs/status": ("update",),
    "tensorflow.org/tfjobs/finalizers": ("update",),
    "scheduling.x-k8s.io/podgroups": (*READ, "create", "patch", "delete"),
    "scheduling.volcano.sh/podgroups": (*READ, "create", "patch", "delete"),
    f"{WEBHOOKS}:{NAME}": ("get", "patch"),
    f"{CRDS}:tfjobs.kubeflow.org": ("get", "patch"),
}
"""What the operator may do in every namespace."""
NEEDS_AT_HOME = {LEASES: ("create",), f"{LEASES}:tf-operator": ("get", "create", "update")}
"""And in its own; a right to create is one for every name."""
OF_ONE = f"system:serviceaccount:team:{NAME}"
NEEDS_OF_ONE = {place: verbs for place, verbs in NEEDS.items() if place != "/nodes" and ":" not in place}
"""What an operator of one namespace may do there: nothing that the whole cluster shares."""


@pytest.fixture(scope="module")
def server(own_cluster: Client) -> Client:
    own_cluster.apply(own_namespace(), service_account(Settings(image="")), *rbac.for_cluster(NAMESPACE, ApiVersions()))
    own_cluster.kubectl("create", "namespace", "team")
    own_cluster.apply(*rbac.for_namespace("team", ApiVersions()))
    # The API server takes a moment to apply new rights.
    wait_until(lambda: bool(allowed(own_cluster, OPERATOR, "default", [("list", "/nodes")])), 60)
    wait_until(lambda: bool(allowed(own_cluster, OPERATOR, NAMESPACE, [("create", LEASES)])), 60)
    wait_until(lambda: bool(allowed(own_cluster, OF_ONE, "team", [("create", LEASES)])), 60)
    return own_cluster


def allowed(server: Client, user: str, namespace: str, asked: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """What of it the user may do."""

    async def answers() -> list[bool]:
        access = config.load(environ={"KUBECONFIG": str(server.kubeconfig)})
        async with kube.Client(access) as client:
            bodies = [review(user, namespace, verb, what) for verb, what in asked]
            found = await asyncio.gather(*(client.request("POST", REVIEWS, body=body) for body in bodies))
        return [json.loads(answer)["status"]["allowed"] for answer in found]

    return [one for one, may in zip(asked, asyncio.run(answers()), strict=True) if may]


REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def review(user: str, namespace: str, verb: str, what: str) -> dict[str, Any]:
    """`GROUP/RESOURCE[/SUBRESOURCE][:NAME]`; a service account is in the groups that an API server puts it in."""
    place, _, name = what.partition(":")
    group, resource, subresource = (*place.split("/"), "")[:3]
    attributes = {"namespace": namespace, "verb": verb, "group": group, "resource": resource}
    groups = ["system:authenticated"]
    if user.startswith("system:serviceaccount:"):
        groups += ["system:serviceaccounts", f"system:serviceaccounts:{user.split(':')[2]}"]
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user,
            "groups": groups,
            "resourceAttributes": {**attributes, "subresource": subresource, "name": name},
        },
    }


@pytest.fixture(scope="module")
def served(server: Client) -> set[str]:
    """Every resource and subresource that the API server has, as `GROUP/RESOURCE[/SUBRESOURCE]`."""
    groups = json.loads(server.kubectl("get", "--raw", "/apis"))["groups"]
    versions = [version["groupVersion"] for group in groups for version in group["versions"]]
    lists = [("", json.loads(server.kubectl("get", "--raw", "/api/v1")))]
    lists += [
        (version.split("/")[0], json.loads(server.kubectl("get", "--raw", f"/apis/{version}"))) for version in versions
    ]
    return {f"{group}/{resource['name']}" for group, found in lists for resource in found["resources"]}


@pytest.mark.parametrize(
    ("user", "namespace", "rights"),
    [
        pytest.param(OPERATOR, "default", NEEDS, id="default"),
        pytest.param(OPERATOR, NAMESPACE, {**NEEDS, **NEEDS_AT_HOME}, id=NAMESPACE),
        pytest.param(OF_ONE, "team", {**NEEDS_OF_ONE, **NEEDS_AT_HOME}, id="of one namespace"),
        pytest.param(OF_ONE, "default", {}, id="of one namespace elsewhere"),
    ],
)
def test_the_operator_may_do_what_it_needs_and_nothing_else(
    server: Client, served: set[str], user: str, namespace: str, rights: dict[str, tuple[str, ...]]
) -> None:
    """Asked for every verb on everything that there is, by name where it has a right to one name alone."""
    needs = {**EVERYBODY, **rights}
    named = {f"{place}:somebody-elses" for place in (WEBHOOKS, CRDS, LEASES, "/pods/exec", "/secrets")}
    places = sorted(served | NEEDS.keys() | needs.keys() | named)
    assert {"/pods/exec", "/secrets", "/nodes/proxy", "rbac.authorization.k8s.io/clusterroles"} < served
    asked = [(verb, place) for place in places for verb in VERBS]
    asked += [(verb, place) for place, verbs in SPECIAL.items() for verb in verbs]
    may = allowed(server, user, namespace, asked)
    found = {place: tuple(verb for verb, where in may if where == place) for place in {place for _, place in may}}
    extra = {f"{LEASES}:somebody-elses": ("create",)} if LEASES in needs else {}
    assert found == {**needs, **extra}


def test_the_lease_is_kept_in_the_operator_s_own_namespace(server: Client) -> None:
    lease = [("update", "coordination.k8s.io/leases:tf-operator"), ("update", "coordination.k8s.io/leases:other")]
    assert allowed(server, OPERATOR, NAMESPACE, lease) == lease[:1]


@pytest.mark.parametrize(
    ("role", "verbs"),
    [("edit", ["create", "delete", "list"]), ("view", ["list"])],
)
def test_those_who_may_edit_or_view_a_namespace_may_do_so_with_jobs(
    server: Client, role: str, verbs: list[str]
) -> None:
    server.kubectl("create", "rolebinding", role, "-n", "team", f"--clusterrole={role}", f"--user=may-{role}")
    asked = [(verb, "kubeflow.org/tfjobs") for verb in ("create", "delete", "list")]
    wait_until(lambda: [verb for verb, _ in allowed(server, f"may-{role}", "team", asked)] == verbs, 60)
