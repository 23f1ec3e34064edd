"""The CRD as a real API server and kubectl take it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from devcluster.client import Client, KubectlFailed
from support.api.changes import changed
from support.served import serve_tfjobs
from tfjob.api.crd.tfjob import NAME, crd, crd_problem
from tfjob.cli.main import cli

Object = dict[str, Any]

ROOT = Path(__file__).parents[4]
JOB: Object = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "TFJob",
    "metadata": {"name": "mnist"},
    "spec": {
        "tfReplicaSpecs": {
            "worker": {
                "replicas": 2,
                "restartPolicy": "Never",
                "template": {
                    "metadata": {"creationTimestamp": None, "labels": {"team": "vision"}},
                    "spec": {
                        "containers": [
                            {
                                "name": "tensorflow",
                                "image": "python:3",
                                "resources": {"limits": {"cpu": 0.5, "memory": "1Gi", "nvidia.com/gpu": 1}},
                            }
                        ]
                    },
                },
            }
        }
    },
}


@pytest.fixture(scope="module")
def server(control_plane: Client) -> Client:
    serve_tfjobs(control_plane)
    return control_plane


@pytest.fixture
def namespace(server: Client, control_plane_namespace: str) -> str:
    return control_plane_namespace


def job(**changes: Any) -> Object:
    return changed(JOB, **changes)


def test_what_the_command_prints_is_what_was_applied(server: Client) -> None:
    printed = CliRunner().invoke(cli, ["operator", "manifests", "--crd-only", "--api-versions=v1"]).output
    assert "unchanged" in server.kubectl("apply", "-f", "-", stdin=printed)


def test_the_api_server_takes_it_as_structural_and_as_ours(server: Client) -> None:
    found = server.get("crd", NAME)
    conditions = {one["type"]: one for one in found["status"]["conditions"]}
    assert conditions["Established"]["status"] == "True"
    assert "NonStructuralSchema" not in conditions
    assert crd_problem(found) is None


def test_kubectl_explains_the_fields(server: Client) -> None:
    """The wording itself is in the chart's copy of the CRD."""
    schema = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    replicas = schema["spec"]["properties"]["tfReplicaSpecs"]
    text = explained(server, "tfjob.spec.tfReplicaSpecs")
    assert replicas["description"] in text
    assert replicas["additionalProperties"]["properties"]["replicas"]["description"] in text
    assert "image\t<string>" in server.kubectl("explain", "tfjob.spec.tfReplicaSpecs.template.spec.containers")
    assert schema["status"]["properties"]["ready"]["description"] in explained(server, "tfjob.status")


def explained(server: Client, field: str) -> str:
    """Return what kubectl explains about a field, without its line breaks."""
    return " ".join(server.kubectl("explain", field).split())


def test_a_job_in_odd_but_valid_writing_is_stored_as_written(server: Client, namespace: str) -> None:
    """Types in lower case, a CPU as a number, labels of the template, a null that generators write."""
    server.apply(JOB, namespace=namespace)
    spec = server.get("tfjob", "mnist", "-n", namespace)["spec"]["tfReplicaSpecs"]["worker"]
    assert spec["template"]["metadata"]["labels"] == {"team": "vision"}
    container = spec["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"cpu": 0.5, "memory": "1Gi", "nvidia.com/gpu": 1}


def test_an_unknown_field_is_refused_by_kubectl_and_dropped_for_those_who_do_not_ask(
    server: Client, namespace: str
) -> None:
    wrong = job(spec__runPolicy__backofLimit=3)
    with pytest.raises(KubectlFailed, match=r'unknown field "(spec\.runPolicy\.)?backofLimit"'):
        server.apply(wrong, namespace=namespace)
    server.kubectl("apply", "--validate=false", "-n", namespace, "-f", "-", stdin=json.dumps(wrong))
    assert "backofLimit" not in server.get("tfjob", "mnist", "-n", namespace)["spec"]["runPolicy"]


def test_an_unknown_field_of_a_template_is_kept(server: Client, namespace: str) -> None:
    newer = copy.deepcopy(JOB)
    pod = newer["spec"]["tfReplicaSpecs"]["worker"]["template"]["spec"]
    pod["fieldOfTomorrow"] = {"a": [1]}
    pod["containers"][0]["fieldOfTomorrow"] = True
    server.apply(newer, namespace=namespace)
    stored = server.get("tfjob", "mnist", "-n", namespace)["spec"]["tfReplicaSpecs"]["worker"]["template"]["spec"]
    assert stored["fieldOfTomorrow"] == {"a": [1]}
    assert stored["containers"][0]["fieldOfTomorrow"] is True


def test_a_wrong_type_is_refused_with_its_path(server: Client, namespace: str) -> None:
    with pytest.raises(KubectlFailed, match=r"spec\.tfReplicaSpecs\.worker\.replicas"):
        server.apply(job(spec__tfReplicaSpecs__worker__replicas="two"), namespace=namespace)


def test_a_manifest_that_was_read_from_a_cluster_of_training_operator_is_taken(server: Client, namespace: str) -> None:
    status = {
        "conditions": [{"type": "Succeeded", "status": "True", "reason": "TFJobSucceeded", "message": "done"}],
        "replicaStatuses": {
            "Worker": {"succeeded": 2, "selector": "a=b", "labelSelector": {"matchLabels": {"a": "b"}}}
        },
        "startTime": "2026-11-16T00:00:00Z",
    }
    server.apply(job(status=status), namespace=namespace)


def test_a_list_has_the_columns_and_the_short_name(server: Client, namespace: str) -> None:
    server.apply(JOB, namespace=namespace)
    status = {"status": {"state": "Failed", "ready": "1/2", "restarts": 3, "reason": "OOMKilled"}}
    server.kubectl(
        "patch", "tfjob", "mnist", "-n", namespace, "--subresource=status", "--type=merge", "-p", json.dumps(status)
    )
    titles, row = server.kubectl("get", "tfj", "-n", namespace).splitlines()
    assert titles.split() == ["NAME", "STATE", "READY", "RESTARTS", "REASON", "AGE"]
    assert row.split()[:5] == ["mnist", "Failed", "1/2", "3", "OOMKilled"]
    assert "tfjob.kubeflow.org/mnist" in server.kubectl("get", "all", "-n", namespace, "-o", "name")


def test_the_queue_of_a_gang_scheduler_does_not_change(server: Client, namespace: str) -> None:
    server.apply(job(spec__runPolicy__schedulingPolicy__queue="a"), namespace=namespace)
    with pytest.raises(KubectlFailed, match="queue is immutable"):
        server.apply(job(spec__runPolicy__schedulingPolicy__queue="b"), namespace=namespace)


def test_every_v1_manifest_of_the_project_is_taken(server: Client, namespace: str) -> None:
    files = [
        file for folder in ("examples", "tests/support/data/api/manifests") for file in (ROOT / folder).rglob("*.yaml")
    ]
    documents = [document for file in files for document in yaml.safe_load_all(file.read_text()) if document]
    jobs = [one for one in documents if (one.get("apiVersion"), one.get("kind")) == ("kubeflow.org/v1", "TFJob")]
    assert len(jobs) > 7
    for one in jobs:
        one["metadata"].pop("namespace", None)
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": jobs})
    server.kubectl("create", "--dry-run=server", "-n", namespace, "-f", "-", stdin=items)
