"""All objects of an installation, in the order of their creation."""

from __future__ import annotations

from typing import Any

import msgspec

from tfjob import __version__
from tfjob.api.crd.older import crd_with, tf_job_crd
from tfjob.api.dialect import TENSORFLOW
from tfjob.api.image_reference import image_fault
from tfjob.api.resources import DEPLOYMENTS, NAMESPACES, SERVICE_ACCOUNTS, SERVICES, VALIDATING_WEBHOOKS
from tfjob.api.text.writer import plain_yaml
from tfjob.operator.api_versions import ApiVersions
from tfjob.operator.install import rbac
from tfjob.operator.options import (
    CONVERSION_PATH,
    HEALTH_PORT,
    METRICS_PORT,
    NAME,
    NAMESPACE,
    WEBHOOK,
    WEBHOOK_PATH,
    WEBHOOK_PORT,
    Settings,
    labels,
)

Object = dict[str, Any]

USER_ID = 65532
"""An unprivileged user without an account, as in our image."""
WEBHOOK_SECONDS = 3
"""How long the API server waits for an answer before it proceeds without one."""


def manifests(settings: Settings) -> list[Object]:
    namespace, versions = settings.namespace, settings.api_versions
    account, program = service_account(settings), (service(settings), deployment(settings))
    if settings.namespace_only:
        return [account, *rbac.for_namespace(namespace, versions), *program]
    return [
        *crds(namespace, versions),
        *([own_namespace()] if namespace == NAMESPACE else []),
        account,
        *rbac.for_cluster(namespace, versions),
        *program,
        webhook(namespace, versions),
    ]


def written(objects: list[Object], output: str) -> str:
    if output == "yaml":
        return plain_yaml(objects)
    whole = objects[0] if len(objects) == 1 else {"apiVersion": "v1", "kind": "List", "items": objects}
    return msgspec.json.format(msgspec.json.encode(whole)).decode() + "\n"


def image_problem(settings: Settings) -> tuple[str, str]:
    """Return a problem with the images and its fix; both are empty if the images are valid."""
    if not settings.image:
        return (
            "--image is missing: no release of tfjob publishes an operator image yet",
            "Build and push one (see docs/guides/operator.md), then pass --image REGISTRY/tf-job-operator:TAG",
        )
    for option, name in (("--image", settings.image), ("--tensorboard-image", settings.tensorboard_image)):
        if name and any(fault := image_fault(name)):
            return f"{option} {name}: {fault[0]}", fault[1]
    return "", ""


def crds(namespace: str, versions: ApiVersions, *, url: str = "") -> list[Object]:
    """Return the CRDs; the operator in `namespace` converts older versions and adds its certificate later."""
    kubeflow = [crd_with(versions.older, _client_config(namespace, CONVERSION_PATH, url))] if versions.kubeflow else []
    return [*kubeflow, *([tf_job_crd()] if versions.tensorflow else [])]


def own_namespace() -> Object:
    restricted = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    return NAMESPACES.manifest({"name": NAMESPACE, "labels": {**labels(), **restricted}})


def service_account(settings: Settings) -> Object:
    return SERVICE_ACCOUNTS.manifest(_metadata(settings))


def service(settings: Settings) -> Object:
    ports: list[Object] = [{"name": "metrics", "port": METRICS_PORT, "targetPort": METRICS_PORT}]
    if not settings.namespace_only:
        ports.append({"name": "webhook", "port": 443, "targetPort": WEBHOOK_PORT})
    return SERVICES.manifest(_metadata(settings), spec={"selector": {"name": NAME}, "ports": ports})


def deployment(settings: Settings) -> Object:
    """Return the operator's Deployment, which meets the `restricted` pod security standard."""
    pod: Object = {
        "serviceAccountName": NAME,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(settings)],
    }
    if settings.pull_secret:
        pod["imagePullSecrets"] = [{"name": settings.pull_secret}]
    if settings.replicas > 1:
        pod["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"name": NAME}},
            }
        ]
    spec = {
        "replicas": settings.replicas,
        "selector": {"matchLabels": {"name": NAME}},
        "template": {"metadata": {"labels": {"name": NAME, **labels()}}, "spec": pod},
    }
    return DEPLOYMENTS.manifest(_metadata(settings), spec=spec)


def webhook(namespace: str, versions: ApiVersions, *, url: str = "") -> Object:
    """Return the webhook that validates jobs before they are stored, in the version that the user wrote.

    While no operator runs, nothing is blocked: it validates the jobs again later. It also adds its certificate.
    """
    entry = {
        "name": WEBHOOK,
        "clientConfig": _client_config(namespace, WEBHOOK_PATH, url),
        "rules": [
            *([_judged("kubeflow.org", *versions.kubeflow)] if versions.kubeflow else []),
            *([_judged(*TENSORFLOW.split("/"))] if versions.tensorflow else []),
        ],
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": WEBHOOK_SECONDS,
        "admissionReviewVersions": ["v1"],
    }
    return VALIDATING_WEBHOOKS.manifest({"name": NAME, "labels": labels()}, webhooks=[entry])


def _judged(group: str, *versions: str) -> Object:
    return {
        "apiGroups": [group],
        "apiVersions": list(versions),
        "operations": ["CREATE", "UPDATE"],
        "resources": ["tfjobs"],
        "scope": "Namespaced",
    }


def _client_config(namespace: str, path: str, url: str) -> Object:
    """Return how the API server reaches the operator: through its Service, or at `url` if that is set."""
    if url:
        return {"url": url}
    return {"service": {"name": NAME, "namespace": namespace, "path": path, "port": 443}}


def arguments(settings: Settings) -> list[str]:
    words = ["operator", "run", "--leader-elect"]
    if settings.namespace_only:
        words.append(f"--namespace={settings.namespace}")
    else:
        words.append(f"--webhook-bind-address=:{WEBHOOK_PORT}")
    # The operator has rights only for these groups; a CRD of an earlier installation may still exist.
    words.append(f"--api-groups={','.join(settings.api_versions.groups)}")
    if settings.gang_scheduler_name:
        words.append(f"--gang-scheduler-name={settings.gang_scheduler_name}")
    words.append(f"--tensorboard-image={settings.tensorboard_image or tensorboard_image(settings.image)}")
    return words


def tensorboard_image(image: str) -> str:
    """Return the TensorBoard image in the registry of the operator's image, with the same tag."""
    folder, slash, name = image.partition("@")[0].rpartition("/")
    return f"{folder}{slash}tf-job-tensorboard:{name.partition(':')[2] or __version__}"


def _container(settings: Settings) -> Object:
    ports = {"metrics": METRICS_PORT, "health": HEALTH_PORT}
    if not settings.namespace_only:
        ports["webhook"] = WEBHOOK_PORT
    return {
        "name": NAME,
        "image": settings.image,
        "imagePullPolicy": settings.pull_policy,
        "args": arguments(settings),
        "env": [{"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
        "ports": [{"name": name, "containerPort": number} for name, number in ports.items()],
        "livenessProbe": _probe("/healthz", periodSeconds=10, failureThreshold=3),
        "readinessProbe": _probe("/readyz", periodSeconds=5, failureThreshold=2),
        "startupProbe": _probe("/healthz", periodSeconds=1, failureThreshold=60),
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _probe(path: str, **settings: int) -> Object:
    return {"httpGet": {"path": path, "port": "health"}, "timeoutSeconds": 3, **settings}


def _metadata(settings: Settings) -> Object:
    return {"name": NAME, "namespace": settings.namespace, "labels": labels()}
