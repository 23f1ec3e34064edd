"""The Deployment and the Service of a model, for this machine and for a cluster. Pure.

    deployment, service = documents(Serving(name="mnist-serving", model="mnist", base_path="/models/mnist", ...))

The pods run a server with the flags of TensorFlow Serving: the original image, ours, or a command of this machine. A
pod is ready when the server answers for the model's metadata, which both servers do only while a version is available.
(Their answer about the model's status is 200 in every state.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from tfjob import __version__
from tfjob.api.objects import SAME_PORTS
from tfjob.api.servers import MODEL_SERVER

Object = dict[str, Any]

GRPC_PORT, REST_PORT = 9000, 8501
GRPC, REST = "grpc", "http"
"""Names of the ports, for probes, Services and port-forward."""
SUFFIX = "-serving"
LONGEST_NAME = 63
"""Characters in the name of a Service, which is a DNS label."""
IMAGES = {"tensorflow": "tensorflow/serving:2.19.1", "tfjob": f"localhost/tf-job-serving:{__version__}"}
"""The image of each server; an installation names those of its registry."""
MANAGED_BY = {"app.kubernetes.io/managed-by": "tfjob-serve"}
MODEL = "tfjob/model"
"""Annotation: the name of the model, which need not be a valid label."""
BASE_PATH = "tfjob/model-base-path"
"""Annotation: the folder with the versions of the model."""
USER_ID = 65532
"""An unprivileged user without an account, as in our images."""
DRAIN_SECONDS = 5
"""How long a pod keeps serving after its deletion has begun, until no one sends it new requests."""
GRACE_SECONDS = 45
"""For the drain, and for running requests, which our server finishes within 30 s."""


@dataclass(frozen=True, kw_only=True)
class Volume:
    """The volume with the models: its source, and the part of it that is mounted, as in a pod."""

    source: Mapping[str, Any]
    mount_path: str
    sub_path: str = ""


@dataclass(frozen=True, kw_only=True)
class Serving:
    """A model and how it is served.

    `name` is that of the Deployment and the Service, `base_path` the folder with the versions as the server sees it. On
    this machine, `command` runs in place of the image.
    """

    name: str
    model: str
    base_path: str
    namespace: str = ""
    port: int = GRPC_PORT
    rest_port: int = REST_PORT
    replicas: int | None = None
    image: str = IMAGES["tfjob"]
    command: Sequence[str] = (MODEL_SERVER,)
    volume: Volume | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    is_local: bool = False


def name_for(model: str) -> str:
    """Return the default name of the Deployment of a model: `mnist-serving`."""
    label = re.sub(r"[^a-z0-9-]+", "-", model.lower()).strip("-")
    label = label if label[:1].isalpha() else f"model-{label}".rstrip("-")
    return label[: LONGEST_NAME - len(SUFFIX)].rstrip("-") + SUFFIX


def documents(serving: Serving) -> tuple[Object, Object]:
    return deployment(serving), service(serving)


def deployment(serving: Serving) -> Object:
    selector = {"app": serving.name}
    spec: Object = {
        "selector": {"matchLabels": selector},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": {"metadata": {"labels": _labels(serving)}, "spec": _pod(serving)},
    }
    if serving.replicas is not None:
        spec = {"replicas": serving.replicas, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _metadata(serving), "spec": spec}


def service(serving: Serving) -> Object:
    spec: Object = {
        "selector": {"app": serving.name},
        "ports": [
            {"name": GRPC, "port": serving.port, "targetPort": GRPC},
            {"name": REST, "port": serving.rest_port, "targetPort": REST},
        ],
    }
    metadata = _metadata(serving)
    if serving.is_local:
        # A server without a version explains that in its answers.
        spec["publishNotReadyAddresses"] = True
        metadata["annotations"][SAME_PORTS] = ""
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _pod(serving: Serving) -> Object:
    if serving.is_local:
        return {"containers": [_container(serving)]}
    pod: Object = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_cluster_container(serving)],
    }
    if serving.volume is not None:
        pod["volumes"] = [{"name": "models", **_read_only(serving.volume.source)}]
    return pod


def _container(serving: Serving) -> Object:
    flags = {
        "port": serving.port,
        "rest_api_port": serving.rest_port,
        "model_name": serving.model,
        "model_base_path": serving.base_path,
    }
    path = f"/v1/models/{quote(serving.model, safe='')}/metadata"
    return {
        "name": "server",
        "image": serving.image,
        "command": list(serving.command),
        # The server of TensorFlow Serving does not accept `--name value`.
        "args": [f"--{name}={_escaped(value)}" for name, value in flags.items()],
        "ports": [
            {"name": GRPC, "containerPort": serving.port},
            {"name": REST, "containerPort": serving.rest_port},
        ],
        "readinessProbe": {
            "httpGet": {"path": path, "port": REST},
            # Before that, no server on this machine is ready, and each failure would be reported.
            "initialDelaySeconds": 2 if serving.is_local else 0,
            "periodSeconds": 1 if serving.is_local else 2,
            "timeoutSeconds": 5,
        },
    }


def _cluster_container(serving: Serving) -> Object:
    container = {
        **_container(serving),
        "lifecycle": {"preStop": {"sleep": {"seconds": DRAIN_SECONDS}}},
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    if serving.volume is not None:
        mount = {"name": "models", "mountPath": serving.volume.mount_path, "readOnly": True}
        container["volumeMounts"] = [mount | ({"subPath": serving.volume.sub_path} if serving.volume.sub_path else {})]
    return container


def _read_only(source: Mapping[str, Any]) -> Object:
    plain = {name: value for name, value in source.items() if name != "name"}
    claim = plain.get("persistentVolumeClaim")
    return {**plain, "persistentVolumeClaim": {**claim, "readOnly": True}} if claim else plain


def _escaped(value: object) -> str:
    """Return a value as an argument of a container, in which `$(NAME)` would be replaced."""
    return str(value).replace("$(", "$$(")


def _labels(serving: Serving) -> Object:
    return {"app": serving.name, **MANAGED_BY}


def _metadata(serving: Serving) -> Object:
    annotations = {MODEL: serving.model, BASE_PATH: serving.base_path, **serving.annotations}
    metadata = {"name": serving.name, "labels": _labels(serving), "annotations": annotations}
    return metadata | ({"namespace": serving.namespace} if serving.namespace else {})
