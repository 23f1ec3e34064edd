"""A manifest that was read from a cluster in an older version runs as the job that the cluster had."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tfjob.api.dialect import TENSORFLOW
from tfjob.api.manifest.loader import load
from tfjob.api.types import API_VERSION, UNSAID
from tfjob.api.versions.registry import to_version
from tfjob.api.versions.round_trip import OLDER, converted

TEMPLATE = {"spec": {"containers": [{"name": "tensorflow", "image": "example.com/train:1"}]}}
STORED: dict[str, Any] = {
    "apiVersion": API_VERSION,
    "kind": "TFJob",
    "metadata": {"name": "old", "namespace": "team"},
    "spec": {
        "successPolicy": "AllWorkers",
        "restartScope": "Task",
        "tfReplicaSpecs": {
            "Master": {"replicas": 1, "template": TEMPLATE},
            "Worker": {"replicas": 2, "template": TEMPLATE},
        },
    },
}


@pytest.mark.parametrize("older", [*OLDER, TENSORFLOW])
def test_what_the_annotation_says_counts(older: str) -> None:
    shown = converted(STORED, older)
    assert "restartScope" not in shown["spec"]
    manifest = load(yaml.safe_dump(shown))
    assert manifest.errors == []
    (entry,) = manifest.entries
    assert (entry.written.spec.restart_scope, entry.written.spec.success_policy) == ("Task", "AllWorkers")
    assert entry.written.spec.tf_replica_specs["Worker"].replicas == 2
    sent, _ = to_version(entry.written, API_VERSION)
    assert sent["spec"]["restartScope"] == "Task"


def test_an_edit_wins_over_the_annotation_and_a_fault_has_its_place() -> None:
    shown = converted(STORED, "kubeflow.org/v1alpha1")
    worker = next(one for one in shown["spec"]["replicaSpecs"] if one["tfReplicaType"] == "WORKER")
    worker["replicas"] = 5
    assert load(yaml.safe_dump(shown)).jobs[0].spec.tf_replica_specs["Worker"].replicas == 5
    worker["replicas"] = -1
    (problem,) = load(yaml.safe_dump(shown)).errors
    assert problem.path == f"spec.replicaSpecs[{shown['spec']['replicaSpecs'].index(worker)}].replicas"
    assert problem.line > 1


def test_an_annotation_that_adds_nonsense_is_refused_by_its_name() -> None:
    shown = converted(STORED, "kubeflow.org/v1beta1")
    notes = shown["metadata"]["annotations"]
    assert '"Task"' in notes[UNSAID]
    notes[UNSAID] = notes[UNSAID].replace('"Task"', "7")
    (problem,) = load(yaml.safe_dump(shown)).errors
    assert problem.path == 'metadata.annotations["tfjob/unsaid"]'
    assert "spec.restartScope" in problem.message


def test_a_manifest_of_another_version_is_written_without_it() -> None:
    (entry,) = load(yaml.safe_dump(converted(STORED, "kubeflow.org/v1alpha1"))).entries
    written, left_out = to_version(entry.written, "kubeflow.org/v1beta1")
    assert UNSAID not in written["metadata"].get("annotations", {})
    assert "spec.restartScope" in {problem.path for problem in left_out}
