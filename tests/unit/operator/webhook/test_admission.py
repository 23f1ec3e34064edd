"""What the webhook answers: the judgement of `tfjob check`, and never a hostage."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from support.api.changes import changed
from support.golden import Wording
from tfjob.api.versions.round_trip import converted
from tfjob.operator.options import CONVERSION_PATH, WEBHOOK_PATH
from tfjob.operator.webhook.reviews import admit as answer
from tfjob.operator.webhook.server import webhook_app

Object = dict[str, Any]

JOB: Object = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "TFJob",
    "metadata": {"name": "mnist", "namespace": "default", "uid": "1", "managedFields": [{"manager": "kubectl"}]},
    "spec": {
        "tfReplicaSpecs": {
            "Worker": {
                "replicas": 2,
                "restartPolicy": "Never",
                "template": {"spec": {"containers": [{"name": "tensorflow", "image": "python:3"}]}},
            }
        }
    },
    "status": {"state": "Running"},
}
WORKER = "spec.tfReplicaSpecs.Worker"


def job(**changes: Any) -> Object:
    return changed(JOB, **changes)


def faulty(**changes: Any) -> Object:
    """A job whose worker's restart policy is none."""
    return job(spec__tfReplicaSpecs__Worker__restartPolicy="Sometimes", **changes)


def ask(new: Object | None, old: Object | None = None, operation: str = "") -> Object:
    request = {
        "uid": "705ab4f5",
        "kind": {"group": "kubeflow.org", "version": "v1", "kind": "TFJob"},
        "operation": operation or ("UPDATE" if old else "CREATE"),
        "object": new,
        "oldObject": old,
    }
    reply = answer({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    assert reply["apiVersion"] == "admission.k8s.io/v1"
    assert reply["response"]["uid"] == "705ab4f5"
    response: Object = reply["response"]
    return response


def test_a_good_job_passes_without_a_word() -> None:
    assert ask(JOB) == {"uid": "705ab4f5", "allowed": True}


def test_every_error_is_said_at_once_with_its_path() -> None:
    bad = faulty(metadata__name="Mnist", spec__runPolicy__backoffLimit=-1)
    response = ask(bad)
    assert response["allowed"] is False
    status = response["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    fields = [cause["field"] for cause in status["details"]["causes"]]
    assert fields == ["metadata.name", f"{WORKER}.restartPolicy", "spec.runPolicy.backoffLimit"]
    assert all(field in status["message"] for field in fields)
    assert status["details"]["kind"] == "TFJob"


def test_a_misspelt_field_of_a_template_is_a_warning_with_the_nearest_name(wording: Wording) -> None:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "python:3", "imagePullPolice": "Never"}]}}
    response = ask(job(spec__tfReplicaSpecs__Worker__template=template))
    assert response["allowed"] is True
    (warning,) = response["warnings"]
    assert warning.startswith(f"{WORKER}.template.spec.containers[0].imagePullPolice: ")
    assert "imagePullPolicy" in warning
    wording(warning)


def test_paths_are_in_the_user_s_own_spelling() -> None:
    spec = {"tfReplicaSpecs": {"worker": faulty()["spec"]["tfReplicaSpecs"]["Worker"]}}
    response = ask(job(spec=spec))
    assert response["status"]["details"]["causes"][0]["field"] == "spec.tfReplicaSpecs.worker.restartPolicy"


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (faulty(metadata__deletionTimestamp="2026-11-16T00:00:00Z", metadata__finalizers=[]), JOB),
        (faulty(metadata__labels={"a": "b"}), faulty()),
        (faulty(metadata__finalizers=["kueue.x-k8s.io/managed"]), faulty()),
        (faulty(status={"state": "Failed"}), faulty()),
    ],
    ids=["being deleted", "labels only", "finalizers only", "status only"],
)
def test_what_is_stored_is_never_held_hostage(new: Object, old: Object) -> None:
    assert ask(new, old)["allowed"] is True


def test_a_fault_that_was_stored_before_is_only_warned_about() -> None:
    """Kueue must be able to suspend a job that was accepted by another operator."""
    response = ask(faulty(spec__runPolicy__suspend=True), faulty())
    assert response["allowed"] is True
    assert "restartPolicy" in response["warnings"][0]


def test_a_new_fault_beside_an_old_one_is_refused() -> None:
    response = ask(faulty(spec__runPolicy__backoffLimit=-1), faulty())
    assert [cause["field"] for cause in response["status"]["details"]["causes"]] == ["spec.runPolicy.backoffLimit"]


OURS, KUEUE = "kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [(None, OURS, False), (OURS, KUEUE, False), (KUEUE, None, False), (KUEUE, KUEUE, True), (None, None, True)],
)
def test_managed_by_does_not_change(before: str | None, after: str | None, allowed: bool) -> None:
    old = job(spec__runPolicy__managedBy=before)
    new = job(spec__runPolicy__managedBy=after, spec__runPolicy__suspend=True)
    response = ask(new, old)
    assert response["allowed"] is allowed
    if not allowed:
        assert response["status"]["details"]["causes"][0]["field"] == "spec.runPolicy.managedBy"


@pytest.mark.parametrize(("prefix", "allowed"), [("mnist-", True), ("m" * 60, False)])
def test_a_name_that_is_still_to_be_made_up_is_judged_by_its_length(prefix: str, allowed: bool) -> None:
    assert ask(job(metadata__name=None, metadata__generateName=prefix))["allowed"] is allowed


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
def test_other_operations_pass(operation: str) -> None:
    assert ask(None, JOB, operation)["allowed"] is True


@pytest.mark.parametrize("review", [{}, {"request": None}, {"request": {"object": None, "operation": "CREATE"}}])
def test_a_review_without_an_object_is_no_fault_of_ours(review: Object) -> None:
    """An API server sends none of these; an answer is still due."""
    assert "allowed" in answer(review)["response"]


ALPHA: Object = {
    "apiVersion": "kubeflow.org/v1alpha1",
    "kind": "TFJob",
    "metadata": {"name": "mnist", "namespace": "default", "uid": "1"},
    "spec": {
        "replicaSpecs": [
            {"tfReplicaType": "MASTER", "template": {"spec": {"containers": [{"name": "tensorflow", "image": "a"}]}}}
        ]
    },
}


def test_an_older_version_is_judged_as_it_is_written() -> None:
    wrong = copy.deepcopy(ALPHA)
    wrong["spec"]["replicaSpecs"][0]["tfReplicaType"] = "BOSS"
    assert ask(ALPHA)["allowed"]
    refusal = ask(wrong)
    assert not refusal["allowed"]
    assert "spec.replicaSpecs[0].tfReplicaType" in [one["field"] for one in refusal["status"]["details"]["causes"]]


def tf_job(image: str = "example.com/train:1", **spec: Any) -> Object:
    """A TfJob of tensorflow.org in the spelling of the documents."""
    master = {"tfReplicaType": "MASTER", "template": {"spec": {"containers": [{"name": "tensorflow", "image": image}]}}}
    return {
        "apiVersion": "tensorflow.org/v1alpha1",
        "kind": "TfJob",
        "metadata": {"name": "old"},
        "spec": {"replica_specs": [master], **spec},
    }


def test_a_placeholder_in_the_place_of_a_tf_jobs_image_is_refused_with_its_place(wording: Wording) -> None:
    response = ask(tf_job("<DOCKER_USERNAME>/tf-mnist:gpu"))
    assert response["allowed"] is False
    message = response["status"]["message"]
    assert message.startswith("spec.replica_specs[0].template.spec.containers[0].image: ")
    assert "<DOCKER_USERNAME>" in message
    wording(message)


def test_a_tf_job_that_was_written_into_may_be_applied_again_in_the_users_spelling(wording: Wording) -> None:
    """A new one is a slip: nobody can tell which of both is meant."""
    new = tf_job()
    written = {"RuntimeId": "76no", "replicaSpecs": new["spec"]["replica_specs"]}
    both = {**new, "spec": {**new["spec"], **written}}
    assert ask(both, {**new, "spec": written}) == {"uid": "705ab4f5", "allowed": True}
    response = ask(both)
    assert response["allowed"] is False
    assert "replicaSpecs" in response["status"]["message"]
    wording(response["status"]["message"])
    response = ask({**both, "spec": {**both["spec"], "replica_specs": [{"tfPrt": 1}]}}, {**new, "spec": written})
    assert "spec.replica_specs[0].tfPrt" in response["status"]["message"]
    wording(response["status"]["message"])


def test_managed_by_does_not_change_in_a_version_that_has_no_such_field() -> None:
    """It is in the annotation that holds what the version cannot say; a client may have left that out."""
    shown = converted(job(spec__runPolicy__managedBy="kueue.x-k8s.io/multikueue"), "kubeflow.org/v1beta1")
    assert ask(shown, shown)["allowed"]
    without = {**shown, "metadata": {**shown["metadata"], "annotations": {}}}
    refusal = ask(without, shown)
    assert not refusal["allowed"]
    assert "managedBy" in refusal["status"]["message"]


@pytest.mark.parametrize("path", [WEBHOOK_PATH, CONVERSION_PATH])
def test_a_review_that_is_nested_deeper_than_a_stack_is_invalid(path: str) -> None:
    """An API server then admits the job, which the operator checks again, and does not convert it."""
    body = '{"request": {"object": {"spec": ' + "[" * 9_000 + "]" * 9_000 + "}}}"

    async def post() -> int:
        async with TestClient(TestServer(webhook_app())) as client, client.post(path, data=body) as response:
            return response.status

    assert asyncio.run(post()) == 400
