from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from support.api.places import where
from tfjob.api.manifest.loader import Manifest, load
from tfjob.api.types import ORIGIN, PARALLELISM
from tfjob.api.versions.registry import to_version

MANIFESTS = Path(__file__).parents[3] / "support" / "data" / "api" / "manifests"


def one(**spec: Any) -> Manifest:
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "tf"}]}
    value = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "1st"},
        "spec": {"template": {"spec": pod}, **spec},
    }
    return load(yaml.safe_dump(value))


def test_a_job_becomes_workers_that_must_all_succeed() -> None:
    manifest = load((MANIFESTS / "batch-job.yaml").read_text())
    job = manifest.entries[0].written
    assert job.spec.success_policy == "AllWorkers"
    assert job.spec.tf_replica_specs["Worker"].replicas == 5
    assert job.spec.run_policy.backoff_limit == 4
    assert job.metadata.annotations == {ORIGIN: "batch/v1", PARALLELISM: "2"}
    assert manifest.jobs[0].spec.tf_replica_specs["Worker"].restart_policy == "OnFailure"
    assert where(manifest.entries[0], "spec.tfReplicaSpecs.Worker.replicas") == (6, 3, "spec.completions")
    image = "spec.tfReplicaSpecs.Worker.template.spec.containers[0].image"
    assert where(manifest.entries[0], image)[2] == "spec.template.spec.containers[0].image"


@pytest.mark.parametrize(
    ("spec", "replicas", "parallelism"),
    [
        ({}, 1, "1"),
        ({"completions": 3}, 3, "1"),
        ({"parallelism": 3}, 3, "3"),
        ({"completions": 2, "parallelism": 5}, 2, "5"),
    ],
)
def test_completions_and_parallelism_have_kubernetes_defaults(
    spec: dict[str, Any], replicas: int, parallelism: str
) -> None:
    manifest = one(**spec)
    assert manifest.problems == []
    job = manifest.jobs[0]
    assert job.spec.tf_replica_specs["Worker"].replicas == replicas
    assert job.metadata.annotations[PARALLELISM] == parallelism
    assert job.spec.run_policy.backoff_limit == 6


def test_an_indexed_job_finds_its_index_in_the_environment() -> None:
    template = one(completionMode="Indexed", completions=2).jobs[0].spec.tf_replica_specs["Worker"].template
    assert template is not None
    (variable,) = template["spec"]["containers"][0]["env"]
    assert variable["name"] == "JOB_COMPLETION_INDEX"
    assert "replica-index" in variable["valueFrom"]["fieldRef"]["fieldPath"]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"podFailurePolicy": {"rules": []}}, "spec.podFailurePolicy"),
        ({"backoffLimitPerIndex": 1}, "spec.backoffLimitPerIndex"),
        ({"managedBy": "foo.example/bar"}, "spec.managedBy"),
        ({"successPolicy": {"rules": []}}, "spec.successPolicy"),
        ({"completionMode": "Sorted"}, "spec.completionMode"),
        ({"parallelism": -1, "completions": 1}, "spec.parallelism"),
        ({"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds"),
        ({"template": None}, "spec.template"),
        ({"template": {"spec": {"containers": [{"image": "tf"}]}}}, "spec.template.spec.restartPolicy"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(spec: dict[str, Any], path: str) -> None:
    assert [problem.path for problem in one(**spec).errors] == [path]


def test_what_an_api_server_adds_to_a_job_is_accepted() -> None:
    manifest = one(
        selector={"matchLabels": {"a": "b"}}, manualSelector=False, podReplacementPolicy="TerminatingOrFailed"
    )
    assert manifest.problems == []


def test_a_job_is_written_back_as_a_job() -> None:
    written = load((MANIFESTS / "batch-job.yaml").read_text()).entries[0].written
    value, problems = to_version(written, "batch/v1")
    assert problems == []
    assert load(yaml.safe_dump(value)).entries[0].written == written


def test_what_a_job_cannot_say_is_reported() -> None:
    written = load((MANIFESTS / "v1-distributed.yaml").read_text()).entries[0].written
    value, problems = to_version(written, "batch/v1")
    assert value["spec"]["completions"] == 2
    assert {problem.path for problem in problems} == {
        "spec.tfReplicaSpecs.Chief",
        "spec.tfReplicaSpecs.PS",
        "spec.tfReplicaSpecs.Evaluator",
        "spec.runPolicy.cleanPodPolicy",
        "spec.tfReplicaSpecs.Worker.restartPolicy",
    }
