from __future__ import annotations

import copy
import json
from datetime import timedelta

import pytest
from msgspec.structs import replace

from support.plan.builders import job, task, template, tf_config
from tfjob.api.objects import OwnerReference
from tfjob.api.types import ReplicaSpec, TFJob
from tfjob.plan.build.pods import cluster_size, pod, pods, service
from tfjob.plan.build.settings import Settings

SETTINGS = Settings()


def with_template(owner: TFJob, replica: ReplicaSpec, kind: str = "Worker") -> TFJob:
    return replace(owner, spec=replace(owner.spec, tf_replica_specs={**owner.spec.tf_replica_specs, kind: replica}))


def test_names_labels_and_owner_are_those_of_v1_9() -> None:
    made = pod(job(chief=1, worker=2), task("worker-1"), 3, SETTINGS).metadata
    assert (made.name, made.namespace) == ("mnist-worker-1", "default")
    assert made.labels == {
        "training.kubeflow.org/operator-name": "tfjob-controller",
        "training.kubeflow.org/job-name": "mnist",
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": "1",
    }
    owner = OwnerReference(
        api_version="kubeflow.org/v1",
        kind="TFJob",
        name="mnist",
        uid="job-uid",
        controller=True,
        block_owner_deletion=True,
    )
    assert made.owner_references == [owner]
    assert made.annotations == {"tfjob/attempt": "3", "tfjob/cluster-size": "chief=1,worker=2"}


@pytest.mark.parametrize(
    ("shape", "masters"),
    [
        ({"chief": 1, "worker": 2}, {"chief-0"}),
        ({"master": 1, "worker": 2}, {"master-0"}),
        ({"worker": 2, "ps": 1}, {"worker-0"}),
        ({"ps": 1}, set()),
    ],
)
def test_the_pod_whose_logs_speak_for_the_job_has_the_role_label(shape: dict[str, int], masters: set[str]) -> None:
    owner = job(**shape)  # type: ignore[arg-type]
    names = [f"{kind}-{index}" for kind, count in shape.items() for index in range(count)]
    label = "training.kubeflow.org/job-role"
    assert {name for name in names if pod(owner, task(name), 1, SETTINGS).metadata.labels.get(label)} == masters


def test_what_the_template_says_is_kept_and_the_operators_labels_win() -> None:
    own = template()
    own["metadata"] = {
        "labels": {"team": "vision", "training.kubeflow.org/replica-index": "9"},
        "annotations": {"note": "mine"},
        "finalizers": ["example.com/hold"],
    }
    own["spec"]["someFutureField"] = {"kept": True}
    before = copy.deepcopy(own)
    made = pod(job(worker=2, pod_template=own), task("worker-0"), 1, SETTINGS)
    assert made.metadata.labels["team"] == "vision"
    assert made.metadata.labels["training.kubeflow.org/replica-index"] == "0"
    assert made.metadata.annotations["note"] == "mine"
    assert made.metadata.finalizers == ["example.com/hold"]
    assert made.spec["someFutureField"] == {"kept": True}
    assert own == before, "the template is the user's: it is never changed"


@pytest.mark.parametrize(
    ("policy", "told"), [("ExitCode", "Never"), ("Never", "Never"), ("OnFailure", "OnFailure"), ("Always", "Always")]
)
def test_the_kubelet_is_told_a_policy_it_knows(policy: str, told: str) -> None:
    assert pod(job(worker=1, policy=policy), task("worker-0"), 1, SETTINGS).spec["restartPolicy"] == told


def test_tf_config_goes_to_the_main_container_after_the_users_variables() -> None:
    own = template(env=[{"name": "TF_CONFIG", "value": "mine"}])
    own["spec"]["containers"].insert(0, {"name": "log", "image": "log:1"})
    owner = job(worker=2, pod_template=own)
    log, main = pod(owner, task("worker-1"), 1, SETTINGS).spec["containers"]
    assert "env" not in log
    config = {"name": "TF_CONFIG", "value": tf_config(owner, task("worker-1"))}
    assert main["env"] == [{"name": "TF_CONFIG", "value": "mine"}, config]


def test_older_versions_give_it_to_every_container() -> None:
    own = template()
    own["spec"]["containers"].insert(0, {"name": "log", "image": "log:1"})
    owner = job(worker=2, pod_template=own, origin="kubeflow.org/v1beta2")
    containers = pod(owner, task("worker-1"), 1, SETTINGS).spec["containers"]
    assert [[one["name"] for one in container["env"]] for container in containers] == [["TF_CONFIG"], ["TF_CONFIG"]]


def test_last_words_come_from_the_log_unless_the_user_or_the_operator_says_otherwise() -> None:
    own = template()
    own["spec"]["containers"].append({"name": "b", "image": "b:1", "terminationMessagePolicy": "File"})
    own["spec"]["initContainers"] = [{"name": "c", "image": "c:1"}]
    spec = pod(job(worker=1, pod_template=own), task("worker-0"), 1, SETTINGS).spec
    assert [one["terminationMessagePolicy"] for one in spec["containers"]] == ["FallbackToLogsOnError", "File"]
    assert spec["initContainers"][0]["terminationMessagePolicy"] == "FallbackToLogsOnError"
    off = Settings(last_lines=False, pending_grace=timedelta(0))
    spec = pod(job(worker=1, pod_template=own), task("worker-0"), 1, off).spec
    assert "terminationMessagePolicy" not in spec["containers"][0]


def test_a_service_is_headless_and_has_every_named_port_of_the_main_container() -> None:
    ports = [{"name": "tfjob-port", "containerPort": 2222}, {"name": "metrics", "containerPort": 9090}]
    made = service(job(worker=1, pod_template=template(ports=ports)), task("worker-0"))
    assert made.spec == {
        "clusterIP": "None",
        "selector": made.metadata.labels,
        "ports": [{"name": "tfjob-port", "port": 2222}, {"name": "metrics", "port": 9090}],
    }
    assert made.metadata.name == "mnist-worker-0"
    assert service(job(worker=1), task("worker-0")).spec["ports"] == [{"name": "tfjob-port", "port": 2222}]


def test_a_parameter_server_without_template_serves_variables() -> None:
    owner = with_template(
        job(master=1, tf_image="example.com/tf:1", origin="tensorflow.org/v1alpha1"), ReplicaSpec(), "PS"
    )
    made = pod(owner, task("ps-0"), 1, SETTINGS)
    (container,) = made.spec["containers"]
    assert (container["image"], made.spec["restartPolicy"]) == ("example.com/tf:1", "Never")
    assert json.loads(container["env"][0]["value"])["task"] == {"type": "ps", "index": 0}
    assert service(owner, task("ps-0")).spec["ports"] == [{"name": "tf-port", "port": 2222}]


def test_the_cluster_size_does_not_depend_on_evaluators() -> None:
    assert cluster_size(job(chief=1, worker=2, evaluator=1)) == "chief=1,worker=2"
    assert cluster_size(job(worker=2, ps=0)) == "worker=2"


def test_many_pods_at_once_are_what_each_alone_is() -> None:
    owner = job(chief=1, worker=2, evaluator=1)
    wanted = [(task(name), number) for number, name in enumerate(["chief-0", "evaluator-0", "worker-0", "worker-1"])]
    assert list(pods(owner, wanted, SETTINGS)) == [pod(owner, *one, SETTINGS) for one in wanted]
