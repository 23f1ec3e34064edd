"""What is written back into a TfJob's spec."""

from __future__ import annotations

from typing import Any

import pytest

from tfjob.api.defaults import serves_by_default
from tfjob.api.dialect import TENSORFLOW
from tfjob.api.objects import ObjectMeta
from tfjob.api.types import ORIGIN, ReplicaSpec, TFJob
from tfjob.api.versions.v1alpha1 import canonical_spec, completed, is_default_server, to_hub

TEMPLATE = {"spec": {"containers": [{"name": "tensorflow", "image": "example.com/train:1"}]}}
MOUNT = {"mountPath": "/ps-server", "name": "ps-config-volume"}
SIDECAR = {"spec": {"containers": [{"name": "exporter", "image": "example.com/exporter:1"}]}}


def filled(*replicas: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return completed({"replicaSpecs": list(replicas), **spec}, "76no", "example.com/tf:2")


def test_every_default_is_written_and_what_is_given_stays() -> None:
    given = {"replicas": 3, "tfPort": 4444, "tfReplicaType": "WORKER", "template": TEMPLATE}
    spec = filled({"template": TEMPLATE}, given, tensorboard={"logDir": "/logs"})
    assert spec == {
        "RuntimeId": "76no",
        "replicaSpecs": [
            {"IsDefaultPS": False, "replicas": 1, "template": TEMPLATE, "tfPort": 2222, "tfReplicaType": "MASTER"},
            {**given, "IsDefaultPS": False},
        ],
        "tensorboard": {"logDir": "/logs", "serviceType": "ClusterIP"},
        "tfImage": "example.com/tf:2",
    }


def test_an_image_of_the_users_own_stays() -> None:
    assert filled(tfImage="example.com/own:1")["tfImage"] == "example.com/own:1"


def test_a_parameter_server_without_a_template_gets_the_one_that_stands_for_the_default_server() -> None:
    (server,) = filled({"tfReplicaType": "PS", "replicas": 2}, tfImage="example.com/own:1")["replicaSpecs"]
    assert server["template"]["spec"]["containers"][0]["image"] == "example.com/own:1"
    assert server["IsDefaultPS"]
    assert is_default_server(server["template"], "example.com/own:1")
    spec = {"replicaSpecs": [server], "tfImage": "example.com/own:1"}
    manifest = {"apiVersion": "tensorflow.org/v1alpha1", "kind": "TfJob", "spec": spec}
    assert to_hub(manifest).job.spec.tf_replica_specs["PS"].template is None


def test_a_parameter_server_that_brings_only_a_sidecar_keeps_its_template() -> None:
    (server,) = filled({"tfReplicaType": "PS", "template": SIDECAR})["replicaSpecs"]
    assert (server["IsDefaultPS"], server["template"]) == (True, SIDECAR)


@pytest.mark.parametrize(
    ("containers", "volumes", "is_ours"),
    [
        ([{"image": "own:1"}], [], False),
        ([{"name": "tensorflow", "image": "own:1"}], [], False),
        ([{"name": "tensorflow", "image": "own:1", "volumeMounts": [MOUNT]}], [], True),
        ([{"image": "own:1", "volumeMounts": [{**MOUNT, "readOnly": True}]}], [], True),
        ([{"name": "tensorflow", "image": "own:1", "volumeMounts": [MOUNT]}], [{"name": MOUNT["name"]}], False),
        ([{"name": "exporter", "image": "own:1"}], [], True),
        ([{"image": "a:1"}, {"image": "b:1"}], [], True),
    ],
    ids=["no name", "own", "edited", "edited, no name", "own volume", "sidecar", "two without a name"],
)
def test_what_is_written_of_a_parameter_server_is_what_its_pods_are(
    containers: list[dict[str, Any]], volumes: list[dict[str, Any]], is_ours: bool
) -> None:
    template = {"spec": {"containers": containers, "volumes": volumes}}
    (server,) = filled({"tfReplicaType": "PS", "template": template})["replicaSpecs"]
    assert server["IsDefaultPS"] == is_ours
    job = TFJob(metadata=ObjectMeta(annotations={ORIGIN: TENSORFLOW}))
    assert serves_by_default(job, "PS", ReplicaSpec(template=template)) == is_ours


def test_what_is_complete_stays_as_it_is() -> None:
    once = filled({"template": TEMPLATE}, {"tfReplicaType": "PS"}, tensorboard={"logDir": "/logs"})
    assert completed(once, "76no", "example.com/other:1") == once


def test_the_spellings_of_the_documents_become_one() -> None:
    spec = canonical_spec({"replica_specs": [{"tf_replica_type": "PS", "isdefaultps": True}], "runtimeId": "ab12"})
    assert spec == {"replicaSpecs": [{"tfReplicaType": "PS", "IsDefaultPS": True}], "RuntimeId": "ab12"}


def test_what_was_applied_again_in_the_users_spelling_is_what_is_written() -> None:
    spec = canonical_spec(
        {
            "RuntimeId": "ab12",
            "runtimeId": "cd34",
            "replicaSpecs": [{"replicas": 1}],
            "replica_specs": [{"replicas": 3}],
            "tfimage": None,
            "tfImage": "tf:1",
            "terminationPolicy": {"chief": {"replicaName": "MASTER", "ReplicaName": "WORKER"}},
            "tensorboard": {"logDir": "/old", "serviceType": "ClusterIP"},
            "tensorBoard": {"logDir": "/new"},
        }
    )
    assert spec == {
        "RuntimeId": "cd34",
        "replicaSpecs": [{"replicas": 3}],
        "tfImage": "tf:1",
        "terminationPolicy": {"chief": {"replicaName": "WORKER"}},
        "tensorboard": {"logDir": "/new"},
    }


@pytest.mark.parametrize("levels", [10, 400, 5000])
def test_a_template_with_something_nested_deeply_is_not_the_default_server(levels: int) -> None:
    """However deep: an API server stores ten thousand levels where a schema lets unknown fields be."""
    (server,) = filled({"tfReplicaType": "PS"})["replicaSpecs"]
    nested: Any = "end"
    for _ in range(levels):
        nested = [nested]
    assert is_default_server(server["template"], "example.com/tf:2")
    assert not is_default_server({**server["template"], "unknown": nested}, "example.com/tf:2")
