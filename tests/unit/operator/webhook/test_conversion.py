"""What the webhook answers to a ConversionReview."""

from __future__ import annotations

from typing import Any

import pytest

from tfjob.operator.webhook.reviews import convert as answer

JOB = {
    "apiVersion": "kubeflow.org/v1beta1",
    "kind": "TFJob",
    "metadata": {"name": "mnist", "uid": "1"},
    "spec": {"cleanPodPolicy": "All", "tfReplicaSpecs": {}},
}


def ask(version: str, *objects: Any) -> dict[str, Any]:
    request = {"uid": "705ab4f5", "desiredAPIVersion": version, "objects": list(objects)}
    reply = answer({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request})
    assert (reply["apiVersion"], reply["kind"]) == ("apiextensions.k8s.io/v1", "ConversionReview")
    response: dict[str, Any] = reply["response"]
    assert response["uid"] == "705ab4f5"
    return response


def test_all_objects_come_back_in_their_order() -> None:
    other = {**JOB, "metadata": {"name": "other", "uid": "2"}}
    response = ask("kubeflow.org/v1", JOB, other)
    assert response["result"] == {"status": "Success"}
    assert [one["metadata"]["name"] for one in response["convertedObjects"]] == ["mnist", "other"]
    assert {one["apiVersion"] for one in response["convertedObjects"]} == {"kubeflow.org/v1"}


@pytest.mark.parametrize(("version", "job"), [("kubeflow.org/v2", JOB), ("kubeflow.org/v1", {"metadata": {}})])
def test_what_cannot_be_converted_is_said_to_the_api_server(version: str, job: Any) -> None:
    response = ask(version, job)
    assert response["result"]["status"] == "Failure"
    assert response["result"]["message"].startswith("tf-job-operator: ")
    assert response["convertedObjects"] == []
