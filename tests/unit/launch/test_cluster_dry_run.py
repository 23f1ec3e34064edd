"""What a dry run for a cluster makes up, and what it takes from the manifest."""

from __future__ import annotations

from tfjob.launch.cluster_dry_run import as_read, children

TEMPLATE = {"spec": {"containers": [{"name": "tensorflow", "image": "example.com/train:1"}]}}
TF_JOB = {
    "apiVersion": "tensorflow.org/v1alpha1",
    "kind": "TfJob",
    "metadata": {"name": "dry", "namespace": "team"},
    "spec": {
        "replicaSpecs": [{"tfReplicaType": "MASTER", "template": TEMPLATE}, {"tfReplicaType": "PS"}],
        "tensorboard": {"logDir": "/logs"},
    },
}


def test_an_id_that_the_manifest_asks_for_is_used() -> None:
    asked = as_read({**TF_JOB, "spec": {**TF_JOB["spec"], "RuntimeId": "ab12"}})  # type: ignore[dict-item]
    assert "cm-ps-ab12" in {child.metadata.name for child in children(asked)}
