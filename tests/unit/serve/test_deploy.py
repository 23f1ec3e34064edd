"""The Deployment and the Service of a model, on this machine and on a cluster."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import convert

from tfjob.api.manifest.loader import load, read_object
from tfjob.api.objects import SAME_PORTS, Service
from tfjob.api.text.writer import plain_yaml
from tfjob.serve.deploy import IMAGES, Serving, Volume, documents, name_for

CLAIM = {"name": "tfjob-data", "persistentVolumeClaim": {"claimName": "mnist-tfjob-data"}}


def here(**changes: Any) -> Serving:
    given = {"name": "mnist-serving", "model": "mnist", "base_path": "/home/me/models", "is_local": True}
    return Serving(**{**given, "command": ["/p", "-m", "s"], **changes})


def there(**changes: Any) -> Serving:
    volume = Volume(source=CLAIM, mount_path="/tfjob-data", sub_path="team")
    given = {"base_path": "/tfjob-data/output/model", "image": IMAGES["tensorflow"], "is_local": False}
    return here(**{**given, "volume": volume, "namespace": "team", "replicas": 2, **changes})


def container(serving: Serving) -> dict[str, Any]:
    (only,) = documents(serving)[0]["spec"]["template"]["spec"]["containers"]
    return dict(only)


@pytest.mark.parametrize("serving", [here(), there()], ids=["machine", "cluster"])
def test_the_objects_are_valid(serving: Serving) -> None:
    for document in documents(serving):
        assert read_object(document) == (document, [])
    manifest = load(plain_yaml(documents(serving)))
    assert manifest.problems == []


@pytest.mark.parametrize("serving", [here(), there(port=1, rest_port=2)], ids=["machine", "cluster"])
def test_the_service_selects_the_pods_and_names_their_ports(serving: Serving) -> None:
    deployment, service = documents(serving)
    template = deployment["spec"]["template"]
    selector = service["spec"]["selector"]
    assert selector == deployment["spec"]["selector"]["matchLabels"] == {"app": "mnist-serving"}
    assert selector.items() <= template["metadata"]["labels"].items()
    inside = {one["name"]: one["containerPort"] for one in container(serving)["ports"]}
    assert inside == {"grpc": serving.port, "http": serving.rest_port}
    assert {one["targetPort"]: one["port"] for one in service["spec"]["ports"]} == inside
    assert f"--port={serving.port}" in container(serving)["args"]
    assert f"--rest_api_port={serving.rest_port}" in container(serving)["args"]


def test_a_pod_is_ready_when_a_version_of_the_model_is_available() -> None:
    probe = container(there(model="a/b"))["readinessProbe"]
    assert probe["httpGet"] == {"path": "/v1/models/a%2Fb/metadata", "port": "http"}


def test_on_a_cluster_the_volume_is_read_only_and_the_pod_restricted() -> None:
    pod = documents(there())[0]["spec"]["template"]["spec"]
    assert pod["volumes"] == [
        {"name": "models", "persistentVolumeClaim": {"claimName": "mnist-tfjob-data", "readOnly": True}}
    ]
    mount = {"name": "models", "mountPath": "/tfjob-data", "readOnly": True, "subPath": "team"}
    assert container(there())["volumeMounts"] == [mount]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    security = container(there())["securityContext"]
    assert security == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_an_update_on_a_cluster_keeps_every_pod_until_another_one_is_ready() -> None:
    spec = documents(there())[0]["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    grace = spec["template"]["spec"]["terminationGracePeriodSeconds"]
    assert container(there())["lifecycle"]["preStop"]["sleep"]["seconds"] + 30 <= grace


def test_on_this_machine_the_service_keeps_its_ports_and_answers_without_a_version() -> None:
    service = convert(documents(here())[1], Service)
    assert SAME_PORTS in service.metadata.annotations
    assert service.spec["publishNotReadyAddresses"] is True
    assert SAME_PORTS not in documents(there())[1]["metadata"]["annotations"]
    assert "publishNotReadyAddresses" not in documents(there())[1]["spec"]


def test_arguments_are_not_expanded() -> None:
    assert "--model_base_path=/a/$$(HOME)" in container(here(base_path="/a/$(HOME)"))["args"]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("mnist", "mnist-serving"),
        ("My Model_2", "my-model-2-serving"),
        ("-x-", "x-serving"),
        ("數字", "model-serving"),
        ("1", "model-1-serving"),
        ("m" * 80, "m" * 55 + "-serving"),
        ("m" * 54 + "-x", "m" * 54 + "-serving"),
    ],
)
def test_the_name_is_a_dns_label(model: str, name: str) -> None:
    assert name_for(model) == name
    assert len(name) <= 63
