"""What the operator may do in a cluster, and what users may do with jobs: no wildcard, no Secret, no pod log."""

from __future__ import annotations

from typing import Any

from tfjob.api.crd import NAME as CRD_NAME
from tfjob.operator.names import NAME, labels
from tfjob.operator.options import LEASE_NAME

Rule = dict[str, list[str]]
Object = dict[str, Any]

API = "rbac.authorization.k8s.io/v1"
READ = ["get", "list", "watch"]

JOB_RULES: list[Rule] = [
    {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs"], "verbs": [*READ, "delete"]},
    {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs/status"], "verbs": ["update"]},
    # Owner references that block the deletion of their owner need it where that admission plugin is on (OpenShift).
    {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs/finalizers"], "verbs": ["update"]},
    {"apiGroups": [""], "resources": ["pods", "services"], "verbs": [*READ, "create", "delete"]},
    # The files of default parameter servers, and TensorBoards.
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": [*READ, "create", "delete"]},
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": [*READ, "create", "delete"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    {
        "apiGroups": ["scheduling.x-k8s.io", "scheduling.volcano.sh"],
        "resources": ["podgroups"],
        "verbs": [*READ, "create", "patch", "delete"],
    },
]
"""In every namespace whose jobs the operator looks after."""

CLUSTER_RULES: list[Rule] = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": READ},
    {
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "resourceNames": [CRD_NAME],
        "verbs": ["get"],
    },
    {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["validatingwebhookconfigurations"],
        "resourceNames": [NAME],
        "verbs": ["get", "patch"],
    },
]
"""Only an operator of the whole cluster has these: nodes that are lost, its CRD, its own webhook's certificate."""

LEASE_RULES: list[Rule] = [
    # A create cannot be restricted to a name.
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": [LEASE_NAME],
        "verbs": ["get", "update"],
    },
]
"""In the operator's own namespace."""

TEST_RULES: list[Rule] = [
    {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs"], "verbs": ["get", "create", "delete"]},
    {"apiGroups": [""], "resources": ["pods", "services"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["services/proxy"], "verbs": ["get"]},
]
"""What the test of an installation needs, in the namespace of its job."""


CONVERSION_RULES: list[Rule] = [
    {
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "resourceNames": [CRD_NAME],
        "verbs": ["patch"],
    }
]
"""Of an operator that serves older versions: the CRD holds the certificate by which it is believed."""


def for_cluster(namespace: str, *, converts: bool = False) -> list[Object]:
    """The rights of an operator that looks after all namespaces and runs in `namespace`."""
    return [
        _role("ClusterRole", "", [*JOB_RULES, *CLUSTER_RULES, *(CONVERSION_RULES if converts else ())]),
        _binding("ClusterRole", "", namespace),
        _role("Role", namespace, LEASE_RULES),
        _binding("Role", namespace, namespace),
        *for_users(),
    ]


def for_namespace(namespace: str) -> list[Object]:
    """The rights of an operator that looks after the namespace that it runs in, and nothing else."""
    return [_role("Role", namespace, [*JOB_RULES, *LEASE_RULES]), _binding("Role", namespace, namespace)]


def for_users() -> list[Object]:
    """Roles that add jobs to what `edit` and `view` mean, Kubernetes' own and Kubeflow's."""
    change = [*READ, "create", "update", "patch", "delete", "deletecollection"]
    return [
        _user_role("edit", change, ("admin", "edit")),
        _user_role("view", READ, ("view",)),
    ]


def _user_role(name: str, verbs: list[str], targets: tuple[str, ...]) -> Object:
    to = {f"rbac.authorization.k8s.io/aggregate-to-{target}": "true" for target in targets}
    to |= {f"rbac.authorization.kubeflow.org/aggregate-to-kubeflow-{target}": "true" for target in targets}
    return {
        "apiVersion": API,
        "kind": "ClusterRole",
        "metadata": {"name": f"{NAME}-{name}", "labels": {**labels(), **to}},
        "rules": [
            {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs"], "verbs": verbs},
            {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs/status"], "verbs": ["get"]},
        ],
    }


def _role(kind: str, namespace: str, rules: list[Rule]) -> Object:
    return {"apiVersion": API, "kind": kind, "metadata": _metadata(namespace), "rules": rules}


def _binding(role: str, namespace: str, account_namespace: str) -> Object:
    return {
        "apiVersion": API,
        "kind": f"{role}Binding",
        "metadata": _metadata(namespace),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": account_namespace}],
    }


def _metadata(namespace: str) -> Object:
    return {"name": NAME, **({"namespace": namespace} if namespace else {}), "labels": labels()}
