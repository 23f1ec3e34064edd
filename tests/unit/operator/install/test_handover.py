"""Which operators handle TFJobs already, and what makes them stop."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from tfjob.operator.install.handover import WEBHOOK_ENTRY, Step, ours_elsewhere, steps
from tfjob.operator.options import NAME, labels

Object = dict[str, Any]

SERVED = {"TFJob", "PyTorchJob", "MPIJob"}


def deployment(
    image: str = "kubeflow/training-operator:v1-5170a36",
    name: str = "training-operator",
    namespace: str = "kubeflow",
    own: bool = False,
    replicas: int | None = None,
    **container: Any,
) -> Object:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels() if own else {}},
        "spec": {
            **({} if replicas is None else {"replicas": replicas}),
            "template": {"spec": {"containers": [{"image": "proxy:1"}, {"image": image, **container}]}},
        },
    }


def found(*deployments: Object) -> list[Step]:
    return steps(deployments, [], SERVED, NAME)


def value(step: Step, path: str) -> Any:
    assert step.patch is not None
    return next(one["value"] for one in step.patch if one["path"].endswith(path))


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ({}, ["--enable-scheme=PyTorchJob", "--enable-scheme=MPIJob"]),
        ({"args": ["--leader-elect"]}, ["--leader-elect", "--enable-scheme=PyTorchJob", "--enable-scheme=MPIJob"]),
        ({"args": ["--enable-scheme=tfjob", "--enable-scheme=pytorchjob"]}, ["--enable-scheme=pytorchjob"]),
        (
            {"args": ["--enable-scheme", "TFJob", "-enable-scheme", "MPIJob", "-v=1"]},
            ["-v=1", "--enable-scheme=MPIJob"],
        ),
        ({"command": ["/manager", "--enable-scheme=TFJob", "--enable-scheme=MPIJob"]}, ["--enable-scheme=MPIJob"]),
    ],
)
def test_training_operator_keeps_its_other_kinds(words: Object, left: list[str]) -> None:
    (step,) = found(deployment(**words))
    assert value(step, "/containers/1/args") == left
    if "command" in words:
        assert value(step, "/containers/1/command") == ["/manager"]


def test_a_training_operator_that_has_handed_over_is_left_alone() -> None:
    (step,) = found(deployment())
    assert found(deployment(args=value(step, "/args"))) == []


@pytest.mark.parametrize(
    "only_tfjobs",
    [
        deployment(args=["--enable-scheme=TFJob"]),
        deployment(image="gcr.io/kubeflow-images-public/tf_operator:v1.0.0", name="tf-job-operator"),
        deployment(image="registry:5000/kubeflow/tf-operator@sha256:0123"),
    ],
)
def test_an_operator_of_nothing_but_tfjobs_is_scaled_to_zero(only_tfjobs: Object) -> None:
    (step,) = found(only_tfjobs)
    assert value(step, "/spec/replicas") == 0


def test_a_deployment_of_our_name_in_our_place_goes() -> None:
    """Its pods carry the label by which ours are selected."""
    (step,) = found(deployment(image="tf_operator:1", name=NAME, namespace=NAME))
    assert step.patch is None
    assert step.command == f"kubectl -n {NAME} delete deployment {NAME}"


@pytest.mark.parametrize(
    "harmless",
    [
        deployment(own=True, name=NAME, namespace=NAME),
        deployment(replicas=0),
        deployment(args=["--enable-scheme=PyTorchJob"]),
        deployment(image="nginx:1"),
    ],
    ids=["our own", "stopped", "other kinds", "something else"],
)
def test_what_does_not_handle_tfjobs_is_left_alone(harmless: Object) -> None:
    assert found(harmless) == []


def test_the_webhook_of_training_operator_for_tfjobs_goes_and_the_others_stay() -> None:
    """Nobody would answer it any more, and it refuses what is not answered."""
    names = ["validator.pytorchjob.training-operator.kubeflow.org", WEBHOOK_ENTRY]
    configuration = {
        "metadata": {"name": "validator.training-operator.kubeflow.org"},
        "webhooks": [{"name": name} for name in names],
    }
    kueue = {"metadata": {"name": "kueue"}, "webhooks": [{"name": "vtfjob.kb.io"}]}
    (step,) = steps([], [configuration, kueue], SERVED, NAME)
    assert step.patch == (
        {"op": "test", "path": "/webhooks/1/name", "value": WEBHOOK_ENTRY},
        {"op": "remove", "path": "/webhooks/1"},
    )


def test_the_command_can_be_pasted_into_a_shell() -> None:
    (step,) = found(deployment())
    words = shlex.split(step.command)
    assert words[:6] == ["kubectl", "-n", "kubeflow", "patch", "deployment", "training-operator"]
    assert words[6] == "--type=json"
    assert words[7].startswith('-p=[{"op":"add","path":"/spec/template/spec/containers/1/args"')


@pytest.mark.parametrize(
    ("args", "place", "one_namespace", "other"),
    [
        ([], "here", False, "elsewhere"),
        (["--namespace=elsewhere"], "here", False, "elsewhere"),
        ([], "here", True, "elsewhere"),
        (["--namespace=elsewhere"], "here", True, ""),
        ([], "elsewhere", False, ""),
    ],
)
def test_another_operator_of_ours_is_in_the_way_unless_both_keep_to_their_namespaces(
    args: list[str], place: str, one_namespace: bool, other: str
) -> None:
    installed = deployment("tf-job-operator:1", NAME, "elsewhere", own=True, args=["operator", "run", *args])
    assert ours_elsewhere([deployment(), installed], place, one_namespace=one_namespace) == other
