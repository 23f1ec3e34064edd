from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from tfjob.api.defaults import with_defaults
from tfjob.api.types import ORIGIN, TFJob


def job(*, annotations: dict[str, str] | None = None, **replicas: Any) -> TFJob:
    value = {
        "metadata": {"name": "a", "annotations": annotations or {}},
        "spec": {"tfReplicaSpecs": replicas},
    }
    return msgspec.convert(copy.deepcopy(value), TFJob)


def pod(*containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": list(containers), **more}}}


PORT = {"name": "tfjob-port", "containerPort": 2222}


def test_what_is_left_out_is_filled_in() -> None:
    done = with_defaults(job(Worker=pod({"image": "tf"})))
    assert done.metadata.namespace == "default"
    assert done.spec.run_policy.clean_pod_policy == "Running"
    worker = done.spec.tf_replica_specs["Worker"]
    assert (worker.replicas, worker.restart_policy) == (1, "Never")
    assert worker.template == {"spec": {"containers": [{"image": "tf", "name": "tensorflow", "ports": [PORT]}]}}


@pytest.mark.parametrize(
    ("written", "canonical"),
    [("worker", "Worker"), ("WORKER", "Worker"), ("Ps", "PS"), ("cHIEF", "Chief"), ("Eval", "Eval")],
)
def test_replica_types_are_respelt_in_any_case(written: str, canonical: str) -> None:
    assert list(with_defaults(job(**{written: pod({"image": "tf"})})).spec.tf_replica_specs) == [canonical]


@pytest.mark.parametrize(
    ("replica", "policy"),
    [
        ({"restartPolicy": "ExitCode", **pod({}, restartPolicy="Always")}, "ExitCode"),
        (pod({}, restartPolicy="OnFailure"), "OnFailure"),
        (pod({}), "Never"),
        ({"replicas": 2}, "Always"),
    ],
    ids=["its own", "the template's", "neither", "the default parameter server"],
)
def test_the_restart_policy_is_the_replicas_else_the_templates_else_never(replica: dict[str, Any], policy: str) -> None:
    assert with_defaults(job(PS=replica)).spec.tf_replica_specs["PS"].restart_policy == policy


@pytest.mark.parametrize(
    ("containers", "ports"),
    [
        ([{"name": "a"}], [[PORT]]),
        ([{"name": "a"}, {"name": "tensorflow"}], [None, [PORT]]),
        ([{"name": "a"}, {"name": "b"}], [[PORT], None]),
        ([{"ports": [{"containerPort": 80}]}], [[{"containerPort": 80}, PORT]]),
        ([{"ports": [{"name": "tfjob-port", "containerPort": 9}]}], [[{"name": "tfjob-port", "containerPort": 9}]]),
    ],
)
def test_the_training_container_gets_the_port_unless_it_has_one(
    containers: list[dict[str, Any]], ports: list[Any]
) -> None:
    template = with_defaults(job(Worker=pod(*containers))).spec.tf_replica_specs["Worker"].template
    assert template is not None
    assert [one.get("ports") for one in template["spec"]["containers"]] == ports


def test_a_batch_job_gets_no_port() -> None:
    done = with_defaults(job(annotations={ORIGIN: "batch/v1"}, Worker=pod({"name": "a"})))
    assert done.spec.tf_replica_specs["Worker"].template == {"spec": {"containers": [{"name": "a"}]}}


def test_zero_replicas_and_given_values_stay() -> None:
    given = msgspec.convert(
        {
            "metadata": {"name": "a", "namespace": "n"},
            "spec": {"tfReplicaSpecs": {"PS": {"replicas": 0}}, "runPolicy": {"cleanPodPolicy": "None"}},
        },
        TFJob,
    )
    done = with_defaults(given)
    assert done.metadata.namespace == "n"
    assert done.spec.run_policy.clean_pod_policy == "None"
    assert done.spec.tf_replica_specs["PS"].replicas == 0
    assert done.spec.tf_replica_specs["PS"].template is None


def test_the_given_job_is_never_changed_and_defaults_are_final() -> None:
    given = job(worker=pod({"image": "tf"}, restartPolicy="OnFailure"), PS={})
    before = copy.deepcopy(msgspec.to_builtins(given))
    done = with_defaults(given)
    assert msgspec.to_builtins(given) == before
    assert with_defaults(done) == done
