"""The kinds of objects that we read and write, and their paths on an API server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote


@dataclass(frozen=True)
class Resource:
    """One kind of object of one API version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def root(self) -> str:
        """The path of the API version: `/api/v1` or `/apis/GROUP/VERSION`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def manifest(self, metadata: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, **fields}

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of an object, or of all objects in a namespace or in all namespaces."""
        path = f"{self.root}/namespaces/{_segment(namespace)}" if self.namespaced and namespace else self.root
        path = f"{path}/{self.plural}"
        if name:
            path = f"{path}/{_segment(name)}"
        return f"{path}/{subresource}" if subresource else path

    def object_path(self, namespace: str, name: str, subresource: str = "") -> str:
        """Return the path of one object. Raises ValueError for an empty name, which would mean all objects."""
        if not name or (self.namespaced and not namespace):
            raise ValueError(f"one {self.kind} needs a name{' and a namespace' if self.namespaced else ''}")
        return self.path(namespace, name, subresource)


def _segment(name: str) -> str:
    # A server would resolve these to the path of another object.
    return "%20" if name in (".", "..") else quote(name, safe=":")


PODS = Resource("", "v1", "pods", "Pod")
SERVICES = Resource("", "v1", "services", "Service")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
CORE_EVENTS = Resource("", "v1", "events", "Event")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)

POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
JOBS = Resource("batch", "v1", "jobs", "Job")

CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False
)
_RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLES = Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
ROLES = Resource(_RBAC, "v1", "roles", "Role")
ROLE_BINDINGS = Resource(_RBAC, "v1", "rolebindings", "RoleBinding")
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)

PODGROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
VOLCANO_PODGROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
