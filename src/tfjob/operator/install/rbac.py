"""The permissions of the operator, and of users for jobs: no wildcard, no Secret, no pod log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tfjob.api.crd.tfjob import NAME as CRD_NAME
from tfjob.api.objects import PodGroup
from tfjob.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CRDS,
    LEASES,
    PODGROUPS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    VALIDATING_WEBHOOKS,
    VOLCANO_PODGROUPS,
    Resource,
)
from tfjob.kube.cache.decode import CHILD_TYPES
from tfjob.kube.cluster.tensorflow_org import TensorFlowOrgStorage
from tfjob.operator.api_versions import ApiVersions
from tfjob.operator.options import LEASE_NAME, NAME, labels
from tfjob.plan.build.settings import Settings
from tfjob.plan.kind import TFJobKind, TfJobKind

Rule = dict[str, list[str]]
Object = dict[str, Any]

READ = ["get", "list", "watch"]

GANG_SCHEDULERS = [PODGROUPS, VOLCANO_PODGROUPS]
"""The resources of pod groups: each scheduler has its own API group."""


def _rule(groups: list[str], resources: list[str], verbs: list[str], names: Iterable[str] = ()) -> Rule:
    rule = {"apiGroups": groups, "resources": resources}
    return {**rule, **({"resourceNames": list(names)} if names else {}), "verbs": verbs}


def owner_rules(resource: Resource, *more_verbs: str) -> list[Rule]:
    groups, plural = [resource.group], resource.plural
    return [
        _rule(groups, [plural], [*READ, *more_verbs, "delete"]),
        _rule(groups, [f"{plural}/status"], ["update"]),
        # OpenShift's admission plugin requires this for owner references that block the deletion of their owner.
        _rule(groups, [f"{plural}/finalizers"], ["update"]),
    ]


def child_rules(children: Iterable[type[Any]]) -> list[Rule]:
    """Return the rules that the operator needs to own children of these types, one per API group."""
    plurals: dict[str, list[str]] = {}
    rules: list[Rule] = []
    for child in children:
        if child is PodGroup:
            groups = [one.group for one in GANG_SCHEDULERS]
            rules.append(_rule(groups, [PODGROUPS.plural], [*READ, "create", "patch", "delete"]))
        else:
            resource = CHILD_TYPES[child].resource
            plurals.setdefault(resource.group, []).append(resource.plural)
    return [*(_rule([group], names, [*READ, "create", "delete"]) for group, names in plurals.items()), *rules]


TFJOB_RULES = owner_rules(TFJobKind.resource)
# The operator writes the runtime id and the defaults of a TfJob into its spec, and wraps its pods in Jobs.
TF_JOB_RULES = [*owner_rules(TfJobKind.resource, "patch"), *child_rules([TensorFlowOrgStorage.wrapper])]
JOB_RULES = [
    *child_rules(TFJobKind(Settings(gang_scheduler="any")).children),
    _rule([""], ["events"], ["create", "patch"]),
]
"""For the children and events of jobs, in every namespace whose jobs the operator manages."""

CLUSTER_RULES = [
    _rule([""], ["nodes"], READ),
    _rule([CRDS.group], [CRDS.plural], ["get"], [CRD_NAME]),
    _rule([VALIDATING_WEBHOOKS.group], [VALIDATING_WEBHOOKS.plural], ["get", "patch"], [NAME]),
]
"""Only for an operator of the whole cluster: to see lost nodes, check its CRD and publish its webhook's certificate."""

LEASE_RULES = [
    _rule([LEASES.group], [LEASES.plural], ["create"]),  # a create cannot be restricted to a name
    _rule([LEASES.group], [LEASES.plural], ["get", "update"], [LEASE_NAME]),
]
"""For the operator's own namespace."""

TEST_RULES = [
    _rule(["kubeflow.org", "tensorflow.org"], ["tfjobs"], ["get", "create", "delete"]),
    _rule([""], ["pods", "services", "configmaps"], ["list"]),
    _rule(["batch"], ["jobs"], ["list"]),
    _rule(["apps"], ["deployments"], ["list"]),
    _rule([""], ["services/proxy"], ["get"]),
]
"""For the self-test, in the namespace of its job."""

CONVERSION_RULES = [_rule([CRDS.group], [CRDS.plural], ["patch"], [CRD_NAME])]
"""For an operator that serves older versions: it publishes its certificate in the CRD."""


def for_cluster(namespace: str, versions: ApiVersions) -> list[Object]:
    """Return the permissions of an operator that runs in `namespace` and manages all namespaces."""
    rules = [*job_rules(versions), *CLUSTER_RULES, *(CONVERSION_RULES if versions.older else [])]
    everywhere = _granted(rules, namespace, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)
    return [*everywhere, *_granted(LEASE_RULES, namespace), *for_users(versions.groups)]


def job_rules(versions: ApiVersions) -> list[Rule]:
    tfjobs = TFJOB_RULES if versions.kubeflow else []
    return [*tfjobs, *(TF_JOB_RULES if versions.tensorflow else []), *JOB_RULES]


def for_namespace(namespace: str, versions: ApiVersions) -> list[Object]:
    """Return the permissions of an operator that manages only the namespace that it runs in."""
    return _granted([*job_rules(versions), *LEASE_RULES], namespace)


def for_users(groups: list[str]) -> list[Object]:
    """Return the roles that add jobs to `edit` and `view`, of Kubernetes and of Kubeflow."""
    change = [*READ, "create", "update", "patch", "delete", "deletecollection"]
    return [_user_role("edit", groups, change, ("admin", "edit")), _user_role("view", groups, READ, ("view",))]


def _user_role(name: str, groups: list[str], verbs: list[str], targets: tuple[str, ...]) -> Object:
    to = {f"rbac.authorization.k8s.io/aggregate-to-{target}": "true" for target in targets}
    to |= {f"rbac.authorization.kubeflow.org/aggregate-to-kubeflow-{target}": "true" for target in targets}
    metadata = {"name": f"{NAME}-{name}", "labels": {**labels(), **to}}
    rules = [_rule(groups, ["tfjobs"], verbs), _rule(groups, ["tfjobs/status"], ["get"])]
    return CLUSTER_ROLES.manifest(metadata, rules=rules)


def _granted(
    rules: list[Rule], namespace: str, roles: Resource = ROLES, bindings: Resource = ROLE_BINDINGS
) -> list[Object]:
    """Return a role, and its binding to the operator's account in `namespace`."""
    metadata = {"name": NAME, **({"namespace": namespace} if roles.namespaced else {}), "labels": labels()}
    role = {"apiGroup": roles.group, "kind": roles.kind, "name": NAME}
    account = {"kind": SERVICE_ACCOUNTS.kind, "name": NAME, "namespace": namespace}
    return [roles.manifest(metadata, rules=rules), bindings.manifest(metadata, roleRef=role, subjects=[account])]
