from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from support.api.places import where
from tfjob.api.manifest.loader import load
from tfjob.api.types import ORIGIN
from tfjob.api.versions.registry import to_version
from tfjob.api.versions.v1beta import VERSIONS

MANIFESTS = Path(__file__).parents[3] / "support" / "data" / "api" / "manifests"


@pytest.mark.parametrize("version", VERSIONS)
def test_fields_under_spec_become_the_run_policy_and_the_version_is_recorded(version: str) -> None:
    text = f"""
apiVersion: {version}
kind: TFJob
metadata: {{name: older, annotations: {{note: mine}}}}
spec:
  cleanPodPolicy: All
  ttlSecondsAfterFinished: 1
  activeDeadlineSeconds: 2
  backoffLimit: 3
  tfReplicaSpecs:
    MASTER: {{template: {{spec: {{containers: [{{image: tf}}]}}}}}}
"""
    manifest = load(text)
    assert manifest.problems == []
    (entry,) = manifest.entries
    policy = entry.written.spec.run_policy
    assert policy.clean_pod_policy == "All"
    assert (policy.ttl_seconds_after_finished, policy.active_deadline_seconds, policy.backoff_limit) == (1, 2, 3)
    assert entry.written.metadata.annotations == {"note": "mine", ORIGIN: version}
    assert list(entry.job.spec.tf_replica_specs) == ["Master"]
    assert where(entry, "spec.runPolicy.backoffLimit") == (9, 3, "spec.backoffLimit")
    assert where(entry, "spec.tfReplicaSpecs.Master.template")[2] == "spec.tfReplicaSpecs.MASTER.template"

    value, problems = to_version(entry.written, version)
    assert problems == ([] if version == VERSIONS[0] else [found for found in problems if found.warning])
    assert value == yaml.safe_load(text)


def test_the_evaluators_first_name_is_understood() -> None:
    manifest = load((MANIFESTS / "v1alpha2-eval.yaml").read_text())
    assert list(manifest.jobs[0].spec.tf_replica_specs) == ["Worker", "Evaluator"]
    assert where(manifest.entries[0], "spec.tfReplicaSpecs.Evaluator")[2] == "spec.tfReplicaSpecs.Eval"


def test_what_these_versions_cannot_say_is_reported() -> None:
    text = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: newer}
spec:
  successPolicy: AllWorkers
  tensorBoard: {logDir: /logs}
  runPolicy: {suspend: true, backoffLimit: 1}
  tfReplicaSpecs:
    Worker: {template: {spec: {containers: [{image: tf}]}}}
    PS: {replicas: 1}
"""
    value, problems = to_version(load(text).entries[0].written, "kubeflow.org/v1beta2")
    assert value["spec"]["backoffLimit"] == 1
    assert [problem.path for problem in problems] == [
        "spec.successPolicy",
        "spec.tensorBoard",
        "spec.runPolicy.suspend",
        "spec.tfReplicaSpecs.PS.template",
    ]
