"""The job of the self-test."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from support.golden import Wording
from tfjob.api.defaults import serves_by_default
from tfjob.api.dialect import TF_JOBS
from tfjob.api.manifest.loader import load
from tfjob.api.resources import Resource
from tfjob.api.types import TFJOBS
from tfjob.durations import USUAL
from tfjob.kube.access.config import Access
from tfjob.kube.client.client import Client
from tfjob.operator.options import SelfTestOptions
from tfjob.operator.selftest.self_test import NotPulled, SelfTest, Trial

OPTIONS = SelfTestOptions(image="registry.example/tf-job-operator:1", pull_secret="key")
TRIAL = Trial("trial", "default", OPTIONS)


@pytest.mark.parametrize("resource", [TFJOBS, TF_JOBS], ids=lambda one: one.api_version)
@pytest.mark.parametrize("test_image", ["", "registry.example/sample:1"])
def test_the_job_is_a_valid_one_of_either_kind(resource: Resource, test_image: str) -> None:
    trial = replace(TRIAL, options=replace(OPTIONS, test_image=test_image))
    manifest = load(yaml.safe_dump(trial.manifest(resource)))
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
    images = replace(OPTIONS, test_image="registry.example/sample:1", tf_image="registry.example/tensorflow:1")
    (entry,) = load(yaml.safe_dump(replace(TRIAL, options=images).manifest(resource))).entries
    assert entry.written.spec.tf_image == "registry.example/tensorflow:1"
    templates = [one.template for one in entry.written.spec.tf_replica_specs.values()]
    assert all(one and one["spec"]["imagePullSecrets"] == [{"name": "key"}] for one in templates)


# --- an image that cannot be pulled -----------------------------------------------------------------------------------

MESSAGE = 'worker-0: Back-off pulling image "registry.example/sample:1"'


PULL_SECONDS = USUAL.unpulled.total_seconds()


def check_pulls(*reasons: tuple[str, float]) -> None:
    """Show a self-test the reasons of a status, each at its time in seconds."""
    test = SelfTest(Client(Access("http://api.example")), TRIAL, print)
    for reason, now in reasons:
        test.check_pull({"reason": reason, "message": MESSAGE}, now)


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull"])
def test_an_image_that_cannot_be_pulled_is_named(reason: str, wording: Wording) -> None:
    check_pulls((reason, 0), (reason, PULL_SECONDS - 1))
    with pytest.raises(NotPulled) as caught:
        check_pulls((reason, 0), (reason, PULL_SECONDS))
    wording(caught.value)


def test_a_status_of_v1alpha1_has_the_message_in_its_reason() -> None:
    with pytest.raises(NotPulled, match="worker-0"):
        check_pulls((f"ImagePullBackOff: {MESSAGE}", 0), (f"ImagePullBackOff: {MESSAGE}", PULL_SECONDS))


def test_a_pull_that_works_at_last_is_not_a_failure() -> None:
    check_pulls(("ErrImagePull", 0), ("", 30), ("ErrImagePull", PULL_SECONDS), ("ErrImagePull", PULL_SECONDS + 30))


def test_a_pull_that_takes_long_is_not_a_failure() -> None:
    check_pulls(("Starting", 0), ("Starting", 10 * PULL_SECONDS))
