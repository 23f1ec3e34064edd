from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from support.api.places import where
from support.golden import Wording
from tfjob.api.dialect import TENSORFLOW
from tfjob.api.manifest.loader import Manifest, load
from tfjob.api.objects import ObjectMeta
from tfjob.api.types import ORIGIN, RUNTIME_ID, ChiefReference, ReplicaSpec, TFJob, TFJobSpec
from tfjob.api.versions.registry import judge, to_version
from tfjob.plan.facts.tf_config import port

MANIFESTS = Path(__file__).parents[3] / "support" / "data" / "api" / "manifests"


def samples() -> Manifest:
    manifest = load((MANIFESTS / "v1alpha1-samples.yaml").read_text(), "samples.yaml")
    manifest.raise_for_errors()
    return manifest


def one(spec: dict[str, Any], api_version: str = "tensorflow.org/v1alpha1") -> Manifest:
    value = {"apiVersion": api_version, "kind": "TFJob", "metadata": {"name": "old"}, "spec": spec}
    return load(yaml.safe_dump(value))


def replica(**more: Any) -> dict[str, Any]:
    containers = [{"name": "tensorflow", "image": "tf:1"}]
    return {"template": {"spec": {"containers": containers, "restartPolicy": "OnFailure"}}, **more}


def test_the_list_of_replicas_becomes_the_mapping_with_its_port() -> None:
    job = samples().entries[0].written
    replicas = job.spec.tf_replica_specs
    assert {name: spec.replicas for name, spec in replicas.items()} == {"Master": 1, "Worker": 2, "PS": 2}
    template = replicas["Master"].template
    assert template is not None
    assert template["spec"]["containers"][0]["ports"] == [{"name": "tfjob-port", "containerPort": 2223}]
    assert template["spec"]["restartPolicy"] == "OnFailure"
    assert replicas["Master"].restart_policy is None
    assert job.spec.termination_policy is not None
    assert job.metadata.annotations == {ORIGIN: "tensorflow.org/v1alpha1"}


def test_tensorboard_in_any_case_becomes_the_hubs() -> None:
    board = samples().entries[0].written.spec.tensor_board
    assert board is not None
    assert (board.log_dir, board.service_type) == ("/tmp/tensorflow", "LoadBalancer")
    assert [volume["name"] for volume in board.volumes] == ["azurefile"]


def test_a_replica_without_a_type_is_the_master_and_the_end_of_the_job() -> None:
    job = samples().jobs[1]
    assert list(job.spec.tf_replica_specs) == ["Master"]
    assert job.spec.termination_policy is not None
    assert job.spec.termination_policy.chief == ChiefReference(replica_name="Master", replica_index=0)
    assert job.metadata.annotations == {ORIGIN: "kubeflow.org/v1alpha1"}


def test_a_parameter_server_without_a_template_is_the_default_one() -> None:
    assert samples().entries[0].written.spec.tf_replica_specs["PS"].template is None


def test_a_stored_default_parameter_server_is_the_default_one_again() -> None:
    manifest = load((MANIFESTS / "v1alpha1-stored.yaml").read_text())
    job = manifest.entries[0].written
    assert job.spec.tf_replica_specs["PS"].template is None
    assert job.spec.tf_replica_specs["PS"].replicas == 2
    assert job.spec.tf_replica_specs["Master"].template is not None
    assert job.spec.tf_image == "tensorflow/tensorflow:1.3.0"
    assert job.metadata.annotations[RUNTIME_ID] == "76no"


def test_a_field_in_two_spellings_is_an_error_of_a_manifest(wording: Wording) -> None:
    """Only in what the operator has written into may both stand."""
    spec = {"RuntimeId": "ab12", "replicaSpecs": [replica()], "replica_specs": [replica()]}
    (problem,) = one(spec).problems
    assert problem.path == "spec.replica_specs"
    wording(problem)
    manifest = {"apiVersion": TENSORFLOW, "kind": "TfJob", "metadata": {"name": "old"}, "spec": spec}
    assert judge(manifest) == []
    assert [one.path for one in judge(manifest, stored=False)] == ["spec.replica_specs"]
    assert [one.path for one in judge({**manifest, "spec": {**spec, "RuntimeId": None}})] == ["spec.replica_specs"]


def test_an_image_that_a_parameter_servers_template_goes_before_is_told(wording: Wording) -> None:
    stored = yaml.safe_load((MANIFESTS / "v1alpha1-stored.yaml").read_text())
    assert judge(stored) == []
    stored["spec"]["tfImage"] = "tf:2"
    (problem,) = judge(stored)
    assert (problem.path, problem.warning) == ("spec.tfImage", True)
    assert "tensorflow/tensorflow:1.3.0" in problem.message
    wording(problem)


SIDECAR = {"name": "exporter", "image": "example.com/exporter:1", "ports": [{"name": "http", "containerPort": 80}]}


@pytest.mark.parametrize(
    "template",
    [
        {},
        {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}},
        {"template": {"spec": {"containers": [SIDECAR]}}},
    ],
    ids=["no template", "no containers", "a sidecar"],
)
def test_the_port_of_a_parameter_server_without_a_container_is_kept_and_written_again(template: dict[str, Any]) -> None:
    server = {"tfReplicaType": "PS", "tfPort": 3333, **template}
    manifest = one({"replicaSpecs": [replica(), server]})
    assert manifest.problems == []
    (job,) = manifest.jobs
    assert (port(job, "PS"), port(job, "Master")) == (3333, 2222)
    written, _ = to_version(manifest.entries[0].written, "tensorflow.org/v1alpha1")
    assert written["spec"]["replicaSpecs"][1] == {**server, "tfPort": 3333}
    assert "tfjob/ps-port" not in written["metadata"].get("annotations", {})


def test_a_port_that_is_none_is_refused_at_its_place(wording: Wording) -> None:
    (problem,) = one({"replicaSpecs": [replica(), {"tfReplicaType": "PS", "tfPort": 70000}]}).problems
    assert problem.path == "spec.replicaSpecs[1].tfPort"
    assert "70000" in problem.message
    wording(problem)


def test_a_users_own_parameter_server_template_is_kept_whatever_the_flag_says() -> None:
    manifest = one({"replicaSpecs": [replica(), replica(tfReplicaType="PS", IsDefaultPS=True)]})
    assert manifest.jobs[0].spec.tf_replica_specs["PS"].template is not None


@pytest.mark.parametrize("key", ["replicaSpecs", "replica_specs", "ReplicaSpecs"])
@pytest.mark.parametrize("type_key", ["tfReplicaType", "TfReplicaType", "TFREPLICATYPE", "tf_replica_type"])
def test_names_match_in_any_case_and_are_reported_as_written(key: str, type_key: str) -> None:
    manifest = one({key: [{type_key: "master", "Template": replica()["template"], "TFPort": 70000}]})
    assert [problem.path for problem in manifest.errors] == [f"spec.{key}[0].TFPort"]
    assert list(manifest.jobs[0].spec.tf_replica_specs) == ["Master"]


def test_a_place_in_the_hub_is_found_in_the_users_file() -> None:
    manifest = samples()
    image = "spec.tfReplicaSpecs.Worker.template.spec.containers[0].image"
    assert where(manifest.entries[0], image) == (34, 15, "spec.replica_specs[1].Template.spec.containers[0].image")
    port = "spec.tfReplicaSpecs.Master.template.spec.containers[0].ports[0].containerPort"
    assert where(manifest.entries[0], port) == (9, 7, "spec.replica_specs[0].tfPort")
    assert where(manifest.entries[0], "spec.tensorBoard.logDir")[2] == "spec.TensorBoard.LogDir"


def test_the_scheduler_of_the_job_is_every_pods() -> None:
    job = one({"schedulerName": "gang", "replicaSpecs": [replica()]}).jobs[0]
    template = job.spec.tf_replica_specs["Master"].template
    assert template is not None
    assert template["spec"]["schedulerName"] == "gang"


def test_another_chief_may_end_the_job() -> None:
    policy = {"chief": {"replicaName": "WORKER", "replicaIndex": 1}}
    spec = {"replicaSpecs": [replica(tfReplicaType="WORKER", replicas=2)], "terminationPolicy": policy}
    manifest = one(spec)
    assert manifest.problems == []
    termination = manifest.jobs[0].spec.termination_policy
    assert termination is not None
    assert termination.chief == ChiefReference(replica_name="Worker", replica_index=1)


@pytest.mark.parametrize(
    ("spec", "keyword"),
    [
        ({"replicaSpecs": [replica(tfReplicaType="WORKER")]}, "Master"),
        ({"replicaSpecs": [replica(replicas=2)]}, "has 2"),
        ({"replicaSpecs": [replica(), replica()]}, "MASTER"),
        ({"replicaSpecs": [replica(), {"tfReplicaType": "WORKER"}]}, "template"),
        ({"replicaSpecs": [replica(), replica(tfReplicaType="EVALUATOR")]}, "EVALUATOR"),
        ({"tfReplicaSpecs": {}, "replicaSpecs": [replica()]}, "replicaSpecs"),
        ({"replicaSpecs": [replica()], "tensorboard": {}}, "spec.tensorboard.logDir"),
        ({}, "spec.replicaSpecs"),
    ],
)
def test_the_documents_rules_hold(spec: dict[str, Any], keyword: str, wording: Wording) -> None:
    (problem,) = one(spec).errors
    assert keyword in str(problem)
    wording(problem)


def test_a_job_is_written_back_as_v1alpha1() -> None:
    written = samples().entries[0].written
    value, problems = to_version(written, "tensorflow.org/v1alpha1")
    assert problems == []
    assert value["kind"] == "TfJob"
    assert [one["tfReplicaType"] for one in value["spec"]["replicaSpecs"]] == ["MASTER", "WORKER", "PS"]
    assert value["spec"]["replicaSpecs"][0]["tfPort"] == 2223
    again = load(yaml.safe_dump(value))
    again.raise_for_errors()
    assert again.entries[0].written == written


def test_a_job_of_workers_only_ends_with_its_first_worker_in_v1alpha1_too() -> None:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "train"}]}}
    worker = ReplicaSpec(replicas=2, template=template)
    written = TFJob(metadata=ObjectMeta(name="workers"), spec=TFJobSpec(tf_replica_specs={"Worker": worker}))
    value, problems = to_version(written, "kubeflow.org/v1alpha1")
    assert problems == []
    assert value["spec"]["terminationPolicy"] == {"chief": {"replicaName": "WORKER", "replicaIndex": 0}}
    load(yaml.safe_dump(value)).raise_for_errors()


def test_what_v1alpha1_cannot_say_is_reported() -> None:
    written = load((MANIFESTS / "v1-distributed.yaml").read_text()).entries[0].written
    value, problems = to_version(written, "kubeflow.org/v1alpha1")
    assert [one["tfReplicaType"] for one in value["spec"]["replicaSpecs"]] == ["MASTER", "WORKER", "PS"]
    assert {problem.path for problem in problems if not problem.warning} == {
        "spec.tfReplicaSpecs.Evaluator",
        "spec.successPolicy",
        "spec.runPolicy.cleanPodPolicy",
        "spec.runPolicy.backoffLimit",
        "spec.runPolicy.activeDeadlineSeconds",
        "spec.runPolicy.ttlSecondsAfterFinished",
    }
