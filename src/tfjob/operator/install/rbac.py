"""What the operator may do in a cluster, and what users may do with jobs: no wildcard, no Secret, no pod log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tfjob.api.crd.tfjob import NAME as CRD_NAME
from tfjob.api.objects import PodGroup
from tfjob.api.resources import PODGROUPS, VOLCANO_PODGROUPS, Resource
from tfjob.kube.cache.decode import CHILD_TYPES
from tfjob.kube.cluster.tensorflow_org import TensorFlowOrgStorage
from tfjob.operator.api_versions import ApiVersions
from tfjob.operator.options import LEASE_NAME, NAME, labels
from tfjob.plan.build.pods import Settings
from tfjob.plan.kind import TFJobKind, TfJobKind

Rule = dict[str, list[str]]
Object = dict[str, Any]

API = "rbac.authorization.k8s.io/v1"
READ = ["get", "list", "watch"]

GANG_SCHEDULERS = [PODGROUPS, VOLCANO_PODGROUPS]
"""Pod groups exist in the group of whichever scheduler is installed, and their specs are updated."""


def owner_rules(resource: Resource, *more_verbs: str) -> list[Rule]:
    """Return what the operator needs to reconcile owners of a kind."""
    groups, plural = [resource.group], resource.plural
    return [
        {"apiGroups": groups, "resources": [plural], "verbs": [*READ, *more_verbs, "delete"]},
        {"apiGroups": groups, "resources": [f"{plural}/status"], "verbs": ["update"]},
        # Owner references that block the deletion of their owner need it where that admission plugin is on (OpenShift).
        {"apiGroups": groups, "resources": [f"{plural}/finalizers"], "verbs": ["update"]},
    ]


def child_rules(children: Iterable[type[Any]]) -> list[Rule]:
    """Return what the operator needs to own children of these types, one rule per API group."""
    plurals: dict[str, list[str]] = {}
    rules: list[Rule] = []
    for child in children:
        if child is PodGroup:
            groups = [one.group for one in GANG_SCHEDULERS]
            verbs = [*READ, "create", "patch", "delete"]
            rules.append({"apiGroups": groups, "resources": [PODGROUPS.plural], "verbs": verbs})
        else:
            resource = CHILD_TYPES[child].resource
            plurals.setdefault(resource.group, []).append(resource.plural)
    owned = [
        {"apiGroups": [group], "resources": names, "verbs": [*READ, "create", "delete"]}
        for group, names in plurals.items()
    ]
    return [*owned, *rules]


TFJOB_RULES = owner_rules(TFJobKind.resource)
# The random id and the defaults of a TfJob are written into its spec, and its pods are in Jobs.
TF_JOB_RULES = [*owner_rules(TfJobKind.resource, "patch"), *child_rules([TensorFlowOrgStorage.wrapper])]
JOB_RULES: list[Rule] = [
    *child_rules(TFJobKind(Settings(gang_scheduler="any")).children),
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
]
"""What jobs of either group own. Needed in every namespace whose jobs the operator reconciles."""

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
    {
        "apiGroups": ["kubeflow.org", "tensorflow.org"],
        "resources": ["tfjobs"],
        "verbs": ["get", "create", "delete"],
    },
    {"apiGroups": [""], "resources": ["pods", "services", "configmaps"], "verbs": ["list"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list"]},
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]},
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


def for_cluster(namespace: str, versions: ApiVersions) -> list[Object]:
    """The rights of an operator that looks after all namespaces and runs in `namespace`."""
    return [
        _role("ClusterRole", "", [*job_rules(versions), *CLUSTER_RULES, *conversion_rules(versions)]),
        _binding("ClusterRole", "", namespace),
        _role("Role", namespace, LEASE_RULES),
        _binding("Role", namespace, namespace),
        *for_users(versions.groups),
    ]


def job_rules(versions: ApiVersions) -> list[Rule]:
    """What the operator needs wherever there are jobs."""
    tfjobs = TFJOB_RULES if versions.kubeflow else []
    return [*tfjobs, *(TF_JOB_RULES if versions.tensorflow else []), *JOB_RULES]


def conversion_rules(versions: ApiVersions) -> list[Rule]:
    """What it needs to convert."""
    return CONVERSION_RULES if versions.older else []


def for_namespace(namespace: str, versions: ApiVersions) -> list[Object]:
    """The rights of an operator that looks after the namespace that it runs in, and nothing else."""
    return [_role("Role", namespace, [*job_rules(versions), *LEASE_RULES]), _binding("Role", namespace, namespace)]


def for_users(groups: list[str]) -> list[Object]:
    """Roles that add jobs to what `edit` and `view` mean, Kubernetes' own and Kubeflow's."""
    change = [*READ, "create", "update", "patch", "delete", "deletecollection"]
    return [
        _user_role("edit", groups, change, ("admin", "edit")),
        _user_role("view", groups, READ, ("view",)),
    ]


def _user_role(name: str, groups: list[str], verbs: list[str], targets: tuple[str, ...]) -> Object:
    to = {f"rbac.authorization.k8s.io/aggregate-to-{target}": "true" for target in targets}
    to |= {f"rbac.authorization.kubeflow.org/aggregate-to-kubeflow-{target}": "true" for target in targets}
    return {
        "apiVersion": API,
        "kind": "ClusterRole",
        "metadata": {"name": f"{NAME}-{name}", "labels": {**labels(), **to}},
        "rules": [
            {"apiGroups": groups, "resources": ["tfjobs"], "verbs": verbs},
            {"apiGroups": groups, "resources": ["tfjobs/status"], "verbs": ["get"]},
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
