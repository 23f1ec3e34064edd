"""`tfjob serve --on k8s` against a real API server with the controller of Deployments, but without nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.client import Client
from support.cluster_line import on_cluster
from support.command_line import CommandLine
from support.installed import Installed
from support.running import wait_until
from support.served import serve_tfjobs

pytestmark = pytest.mark.timeout(300)

MANIFESTS = Path(__file__).parents[2] / "support" / "data" / "serve" / "manifests"
RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
VOLUME = {"name": "tfjob-data", "persistentVolumeClaim": {"claimName": "shared"}}
MOUNT = {"name": "tfjob-data", "mountPath": "/data", "subPath": "team"}


def manifest(name: str, volume: dict[str, Any] | None) -> str:
    """Return a job of one worker whose storage is a volume."""
    container: dict[str, Any] = {"name": "tensorflow", "image": "example.com/train", "command": ["true"]}
    pod: dict[str, Any] = {"containers": [container]}
    if volume:
        container["volumeMounts"] = [MOUNT]
        pod["volumes"] = [volume]
    spec = {"tfReplicaSpecs": {"Worker": {"template": {"spec": pod}}}}
    return yaml.safe_dump({"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": name}, "spec": spec})


@pytest.fixture(scope="module")
def there(tool: Installed, control_plane: Client, tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """The command line in a namespace with restricted pods, three jobs and no operator."""
    serve_tfjobs(control_plane)
    namespace = control_plane.namespace("serving")
    control_plane.kubectl("label", "namespace", namespace, RESTRICTED)
    line = on_cluster(tool, control_plane.kubeconfig, namespace, tmp_path_factory.mktemp("there"))
    for name, volume in {"mnist": VOLUME, "none": None, "empty": {"name": "tfjob-data", "emptyDir": {}}}.items():
        line("submit", "-", stdin=manifest(name, volume))
    line.outputs["namespace"] = namespace
    return line


@pytest.fixture(scope="module", autouse=True)
def _namespace_is_deleted(there: CommandLine, control_plane: Client) -> Any:
    yield
    control_plane.delete_namespace(there.outputs["namespace"])


def get(client: Client, there: CommandLine, *words: str) -> Any:
    return json.loads(client.kubectl("get", "-n", there.outputs["namespace"], *words, "-o", "json"))


def test_a_server_is_created_updated_listed_and_deleted(there: CommandLine, control_plane: Client) -> None:
    shown = there("serve", "mnist", "--replicas", "2", "--dry-run", "-o", "yaml")
    planned = list(yaml.safe_load_all(shown))
    assert [one["kind"] for one in planned] == ["Deployment", "Service"]
    assert get(control_plane, there, "deployments")["items"] == []

    told = there("serve", "mnist", "--replicas", "2")
    assert f"gRPC  mnist-serving.{there.outputs['namespace']}:9000" in told
    deployment = get(control_plane, there, "deployment", "mnist-serving")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith("tensorflow/serving:")
    assert container["command"] == ["tensorflow_model_server"]
    assert "--model_base_path=/data/output/model" in container["args"]
    mount = {"name": "models", "mountPath": "/data", "subPath": "team", "readOnly": True}
    assert {one: value for one, value in container["volumeMounts"][0].items() if one in mount} == mount
    (volume,) = deployment["spec"]["template"]["spec"]["volumes"]
    assert volume["persistentVolumeClaim"] == {"claimName": "shared", "readOnly": True}
    service = get(control_plane, there, "service", "mnist-serving")
    assert {one["name"]: one["port"] for one in service["spec"]["ports"]} == {"grpc": 9000, "http": 8501}
    # Admission has accepted them in a restricted namespace.
    wait_until(lambda: len(get(control_plane, there, "pods", "-l", "app=mnist-serving")["items"]) == 2, 60)

    (row,) = json.loads(there("serve", "status", "-o", "json"))["items"]
    assert (row["name"], row["model"], row["state"], row["ready"]) == ("mnist-serving", "mnist", "Pending", "0/2")
    assert "mnist-serving" in there("serve", "status")
    there("serve", "update", "mnist", "--replicas", "3", "--image", "example.com/other:1")  # the name of the model
    spec = get(control_plane, there, "deployment", "mnist-serving")["spec"]
    assert (spec["replicas"], spec["template"]["spec"]["containers"][0]["image"]) == (3, "example.com/other:1")
    there("serve", "mnist", "--server", "tfjob", "--replicas", "1", "--name", "digits", "--model-path", "models/x")
    assert len(get(control_plane, there, "deployments")["items"]) == 2
    there("serve", "mnist", "--server", "tfjob", "--replicas", "1")
    spec = get(control_plane, there, "deployment", "mnist-serving")["spec"]
    assert spec["replicas"] == 1
    assert "/tf-job-serving:" in spec["template"]["spec"]["containers"][0]["image"]

    assert "digits-serving was deleted" in there("serve", "stop", "digits")
    there("serve", "stop", "mnist-serving")
    assert get(control_plane, there, "deployments")["items"] == []
    assert get(control_plane, there, "services")["items"] == []
    assert "no model server" in there("serve", "status")


def test_what_cannot_be_served_is_refused(there: CommandLine, control_plane: Client, tmp_path: Path) -> None:
    told = there("serve", str(tmp_path), code=2)
    assert f"{tmp_path} is a folder of this machine, which the pods of a cluster cannot read" in told
    assert "no job 'nothing'" in there("serve", "nothing", code=3)
    assert "none has no storage" in there("serve", "none", code=2)
    assert "the storage of empty is an emptyDir" in there("serve", "empty", code=2)
    for command in (["stop", "nothing"], ["update", "nothing", "--replicas", "1"], ["status", "nothing"]):
        assert "no model server 'nothing'" in there("serve", *command, code=3)
    assert "nothing to update" in there("serve", "update", "mnist-serving", code=2)
    namespace = there.outputs["namespace"]
    control_plane.kubectl("create", "service", "clusterip", "mnist-serving", "--tcp=80:80", "-n", namespace)
    told = there("serve", "mnist", code=2)
    assert "the Service mnist-serving" in told
    assert "--server-name" in told
    assert get(control_plane, there, "deployments")["items"] == []
    control_plane.kubectl("delete", "service", "mnist-serving", "-n", namespace)


def test_a_deployment_of_an_old_document_is_sent_as_apps_v1(there: CommandLine, control_plane: Client) -> None:
    told = there("submit", str(MANIFESTS / "serving.yaml"))
    assert "extensions/v1beta1" in told
    made = get(control_plane, there, "deployments.apps", "tf-serving")
    assert made["spec"]["selector"] == {"matchLabels": {"app": "tf-serving"}}
    namespace = there.outputs["namespace"]
    control_plane.kubectl("delete", "-n", namespace, "deployment/tf-serving", "service/tf-serving")
