"""The chart tf-serving: real Helm, without a cluster and on a real API server."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.client import Client
from support.helm_line import Helm
from tfjob import __version__
from tfjob.serve.deploy import IMAGES, MODEL, Serving, Volume, documents

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

CHART = Path(__file__).parents[3] / "charts" / "tf-serving"
RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
CLAIM = {
    "modelName": "mnist",
    "modelPath": "/data/output/model",
    "claim": {"name": "shared", "mountPath": "/data", "subPath": "team"},
}
S3 = {"modelName": "mnist", "modelPath": "s3://bucket/models/exported/job"}

Object = dict[str, Any]


def template(helm: Helm, values: Object, code: int = 0) -> str:
    words = [f"--set-json={name}={json.dumps(value)}" for name, value in values.items()]
    return helm.run("template", "mnist-job", str(CHART), "-n", "team", *words, code=code)


def objects(helm: Helm, values: Object) -> tuple[Object, Object]:
    """Return the Deployment and the Service of the chart."""
    found = {one["kind"]: one for one in yaml.safe_load_all(template(helm, values)) if one}
    assert found.keys() == {"Deployment", "Service"}
    return found["Deployment"], found["Service"]


def container(helm: Helm, values: Object) -> Object:
    (only,) = objects(helm, values)[0]["spec"]["template"]["spec"]["containers"]
    return dict(only)


def plain(document: Object) -> Object:
    """Return an object without what only one of `tfjob serve` and Helm sets, and without what is the default."""
    found = copy.deepcopy(document)
    for labels in (found["metadata"]["labels"], found["spec"].get("template", {}).get("metadata", {}).get("labels")):
        if labels:
            labels.pop("app.kubernetes.io/managed-by")
    if found["kind"] == "Service":
        found["metadata"].pop("annotations", None)
        assert found["spec"].pop("type", "ClusterIP") == "ClusterIP"
    else:
        (only,) = found["spec"]["template"]["spec"]["containers"]
        assert only.pop("imagePullPolicy", "IfNotPresent") == "IfNotPresent"
        assert only["readinessProbe"].pop("initialDelaySeconds", 0) == 0
    return found


def test_the_chart_makes_what_tfjob_serve_makes(helm: Helm) -> None:
    source = {"persistentVolumeClaim": {"claimName": "shared"}}
    serving = Serving(
        name="mnist-job",
        model="mnist",
        base_path="/data/output/model",
        namespace="team",
        replicas=1,
        image=IMAGES["tensorflow"],
        volume=Volume(source=source, mount_path="/data", sub_path="team"),
    )
    assert [plain(one) for one in objects(helm, CLAIM)] == [plain(one) for one in documents(serving)]


def test_the_chart_has_the_versions_of_tfjob_and_of_its_default_image() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert about["version"] == __version__
    assert values["image"] == IMAGES["tensorflow"] == f"tensorflow/serving:{about['appVersion']}"


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("", {}),
        ("minio:9000", {"S3_ENDPOINT": "minio:9000", "S3_USE_HTTPS": "1", "AWS_ENDPOINT_URL": "https://minio:9000"}),
        (
            "http://minio:9000",
            {"S3_ENDPOINT": "minio:9000", "S3_USE_HTTPS": "0", "AWS_ENDPOINT_URL": "http://minio:9000"},
        ),
    ],
)
def test_a_model_in_s3_has_its_endpoint_and_credentials(helm: Helm, endpoint: str, expected: dict[str, str]) -> None:
    values = {**S3, "s3": {"secretName": "aws", "endpoint": endpoint, "region": "eu-west-1"}}
    found = container(helm, values)
    assert f"--model_base_path={S3['modelPath']}" in found["args"]
    named = {one["name"]: one for one in found["env"]}
    keys = [named.pop(name)["valueFrom"]["secretKeyRef"] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")]
    assert keys == [{"name": "aws", "key": "awsAccessKeyID"}, {"name": "aws", "key": "awsSecretAccessKey"}]
    region = {"AWS_REGION": "eu-west-1", "S3_REGION": "eu-west-1"}
    assert {name: one["value"] for name, one in named.items()} == {**region, **expected}


def test_without_s3_and_a_claim_there_are_no_variables_and_volumes(helm: Helm) -> None:
    found = container(helm, S3)
    assert "env" not in found
    assert "volumeMounts" not in found


@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
def test_the_service_has_the_wanted_type(helm: Helm, kind: str) -> None:
    assert objects(helm, {**S3, "serviceType": kind})[1]["spec"]["type"] == kind


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"modelPath": "s3://x/y"}, "modelName is missing"),
        ({"modelName": "m"}, "modelPath is missing"),
        ({"modelName": "m", "modelPath": "/models/m"}, "claim.name"),
        ({**CLAIM, "modelPath": "/other"}, "not below claim.mountPath"),
        ({**CLAIM, "modelPath": "/database"}, "not below claim.mountPath"),
        ({**S3, "modelPath": "models"}, "modelPath"),
        ({**S3, "serviceType": "Headless"}, "serviceType"),
        ({**S3, "s3": {"secret": "x"}}, "secret"),
        ({**S3, "modelname": "x"}, "modelname"),
    ],
)
def test_wrong_values_are_refused_by_name(helm: Helm, values: Object, words: str) -> None:
    assert words in template(helm, values, code=1)


@pytest.fixture(scope="module")
def namespace(control_plane: Client) -> Iterator[str]:
    """A namespace with restricted pods."""
    name = control_plane.namespace("chart")
    control_plane.kubectl("label", "namespace", name, RESTRICTED)
    yield name
    control_plane.delete_namespace(name)


def test_helm_installs_upgrades_and_removes_a_server(helm: Helm, control_plane: Client, namespace: str) -> None:
    there = Helm(helm.program, helm.home, control_plane)
    words = ["mnist-job", str(CHART), "-n", namespace, *(f"--set-json={k}={json.dumps(v)}" for k, v in CLAIM.items())]
    told = there.run("install", *words)
    assert f"mnist-job.{namespace}:9000" in told

    def deployment() -> Object:
        shown = control_plane.kubectl("get", "deployment", "mnist-job", "-n", namespace, "-o", "json")
        found: Object = json.loads(shown)
        return found

    assert deployment()["metadata"]["annotations"][MODEL] == "mnist"
    there.run("upgrade", *words, "--set", "replicas=2")
    assert deployment()["spec"]["replicas"] == 2
    there.run("uninstall", "mnist-job", "-n", namespace)
    listed = control_plane.kubectl("get", "deployments,services", "-n", namespace, "-o", "json")
    assert json.loads(listed)["items"] == []
