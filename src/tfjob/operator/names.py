"""The names that the operator goes by in a cluster."""

from __future__ import annotations

from tfjob.api.crd.tfjob import OWNER_LABEL

NAME = "tf-job-operator"
"""Deployment, Service, ServiceAccount, roles and webhook configuration."""
NAMESPACE = "tf-job-operator"
"""Where it is installed unless somebody says otherwise."""
WEBHOOK = "validate.tfjobs.kubeflow.org"
"""The one entry of the webhook configuration."""
WEBHOOK_PATH, CONVERSION_PATH = "/validate", "/convert"

METRICS_PORT, HEALTH_PORT, WEBHOOK_PORT = 8080, 8081, 9443
MAKE_CRDS = "tfjob operator manifests --crd-only --namespace-only | kubectl apply -f -"
"""The CRDs for an operator that converts nothing."""


def labels() -> dict[str, str]:
    """On everything that belongs to the operator."""
    key, value = OWNER_LABEL
    return {"app.kubernetes.io/name": NAME, key: value}


def host_names(namespace: str) -> list[str]:
    """What the API server calls the webhook's Service."""
    return [f"{NAME}.{namespace}.svc", f"{NAME}.{namespace}.svc.cluster.local", f"{NAME}.{namespace}"]
