from __future__ import annotations

from pathlib import Path

from support.golden import Wording
from tfjob.api.manifest.loader import load
from tfjob.api.types import TFJob
from tfjob.api.versions.registry import to_version

MANIFESTS = Path(__file__).parents[3] / "support" / "data" / "api" / "manifests"


def job(name: str) -> TFJob:
    manifest = load((MANIFESTS / name).read_bytes(), name)
    manifest.raise_for_errors()
    return manifest.entries[0].written


def test_every_field_of_a_v1_job_is_read() -> None:
    digits = job("v1-distributed.yaml")
    assert digits.metadata.name == "digits"
    assert digits.metadata.namespace == "research"
    assert digits.metadata.labels == {"team": "vision"}
    assert digits.spec.success_policy == "AllWorkers"
    policy = digits.spec.run_policy
    assert (policy.backoff_limit, policy.active_deadline_seconds, policy.ttl_seconds_after_finished) == (3, 3600, 600)
    assert {name: spec.replicas for name, spec in digits.spec.tf_replica_specs.items()} == {
        "Chief": 1,
        "Worker": 2,
        "PS": 1,
        "Evaluator": 1,
    }


def test_a_template_is_kept_whole_also_what_we_do_not_know() -> None:
    text = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: whole}
spec:
  tfReplicaSpecs:
    Worker:
      template:
        metadata: {annotations: {a/b: c}}
        spec:
          newField: {deep: [1, {x: 2}]}
          nodeSelector: {disk: ssd}
          containers: [{image: tf, lifecycle: {preStop: {exec: {command: [sync]}}}}]
"""
    manifest = load(text)
    assert manifest.errors == []
    assert manifest.entries[0].written.spec.tf_replica_specs["Worker"].template == {
        "metadata": {"annotations": {"a/b": "c"}},
        "spec": {
            "newField": {"deep": [1, {"x": 2}]},
            "nodeSelector": {"disk": "ssd"},
            "containers": [{"image": "tf", "lifecycle": {"preStop": {"exec": {"command": ["sync"]}}}}],
        },
    }


def test_what_an_api_server_wrote_is_accepted_and_not_taken_over() -> None:
    first = job("list.yaml")
    assert first.metadata.name == "first"
    assert (first.metadata.uid, first.metadata.resource_version, first.metadata.generation) == ("", "", 0)
    assert first.metadata.annotations == {}
    assert first.metadata.owner_references == []
    assert first.status.replica_statuses == {}


def test_a_v1_job_is_written_as_it_was_read() -> None:
    import yaml

    for name in ("v1-distributed.yaml", "v1alpha1-stored.yaml", "batch-job.yaml"):
        written = job(name)
        value, problems = to_version(written, "kubeflow.org/v1")
        assert problems == []
        again = load(yaml.safe_dump(value))
        again.raise_for_errors()
        assert again.entries[0].written == written


def test_a_v1_job_of_old_operators_is_told_where_its_fields_went(wording: Wording) -> None:
    fields = ("cleanPodPolicy: All", "ttlSecondsAfterFinished: 1", "activeDeadlineSeconds: 1", "backoffLimit: 1")
    for field in fields:
        text = f"""
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {{name: moved}}
spec:
  {field}
  tfReplicaSpecs: {{Worker: {{template: {{spec: {{containers: [{{image: tf}}]}}}}}}}}
"""
        name = field.split(":")[0]
        (problem,) = load(text, "f").problems
        assert (problem.line, problem.column, problem.path) == (6, 3, f"spec.{name}")
        assert f"spec.runPolicy.{name}" in problem.hint
        wording(problem)
