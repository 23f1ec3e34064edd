"""The job of the self-test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from support.golden import Wording
from tfjob.api.defaults import serves_by_default
from tfjob.api.dialect import TF_JOBS
from tfjob.api.manifest.loader import load
from tfjob.api.resources import Resource
from tfjob.api.types import TFJOBS
from tfjob.operator.selftest.self_test import PULL_SECONDS, Pulls, Trial, pods_starting

TRIAL = Trial("trial", "default", image="registry.example/tf-job-operator:1", pull_secret="key")


@pytest.mark.parametrize("resource", [TFJOBS, TF_JOBS], ids=lambda one: one.api_version)
@pytest.mark.parametrize("test_image", ["", "registry.example/sample:1"])
def test_the_job_is_a_valid_one_of_either_kind(resource: Resource, test_image: str) -> None:
    trial = replace(TRIAL, test_image=test_image)
    manifest = load(yaml.safe_dump(trial.manifest(resource, 60)))
    manifest.raise_for_errors()
    (entry,) = manifest.entries
    replicas = entry.written.spec.tf_replica_specs
    assert set(replicas) == {"Master", "Worker", "PS"}
    assert entry.written.spec.tensor_board is not None
    assert serves_by_default(entry.written, "PS", replicas["PS"]) == bool(test_image), "it needs TensorFlow"
    assert entry.written.spec.tf_image == test_image


@pytest.mark.parametrize("resource", [TFJOBS, TF_JOBS], ids=lambda one: one.api_version)
def test_the_parameter_server_may_have_an_image_of_its_own_and_is_pulled_with_the_same_secret(
    resource: Resource,
) -> None:
    trial = replace(TRIAL, test_image="registry.example/sample:1", tf_image="registry.example/tensorflow:1")
    (entry,) = load(yaml.safe_dump(trial.manifest(resource, 60))).entries
    assert entry.written.spec.tf_image == "registry.example/tensorflow:1"
    templates = [one.template for one in entry.written.spec.tf_replica_specs.values()]
    assert all(one and one["spec"]["imagePullSecrets"] == [{"name": "key"}] for one in templates)


# --- an image that does not come: named when waiting is pointless, and not before -------------------------------------

IMAGE = "registry.example/sample:1"
NEW = {"metadata": {"name": "new"}, "spec": {"containers": []}}


def pod(reason: str | None, message: str = "", name: str = "master") -> dict[str, Any]:
    """A pod whose container waits for a reason, or runs."""
    state = {"waiting": {"reason": reason, "message": message}} if reason else {"running": {}}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "tensorflow", "image": IMAGE}]},
        "status": {"containerStatuses": [{"name": "tensorflow", "image": "", "state": state}]},
    }


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"])
def test_an_image_that_cannot_be_pulled_is_named_with_what_the_kubelet_says(reason: str, wording: Wording) -> None:
    pulls = Pulls()
    assert pulls.failure([pod(reason, "not found")], 0) is None
    assert pulls.failure([pod(reason, "not found")], PULL_SECONDS - 1) is None
    failure = pulls.failure([pod(reason, "not found")], PULL_SECONDS)
    assert failure is not None
    assert IMAGE in failure
    wording(failure)


def test_an_image_that_came_after_all_is_no_failure() -> None:
    pulls = Pulls()
    pulls.failure([pod("ErrImagePull")], 0)
    assert pulls.failure([pod(None)], 30) is None
    assert pulls.failure([pod("ErrImagePull")], PULL_SECONDS) is None, "a pull that failed anew"


def test_a_pull_that_takes_long_is_shown_and_no_failure(wording: Wording) -> None:
    pulls, pods = Pulls(), [NEW, pod("ContainerCreating"), pod(None, name="worker")]
    assert pulls.failure(pods, 0) is None
    assert pulls.failure(pods, 10 * PULL_SECONDS) is None
    assert IMAGE in pods_starting(pods)
    wording(pods_starting(pods))
    assert pods_starting([pod(None)]) == ""
