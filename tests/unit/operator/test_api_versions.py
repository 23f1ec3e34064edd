"""The setting that says which versions are served."""

from __future__ import annotations

import pytest

from support.golden import Wording
from tfjob.operator.api_versions import ApiVersions
from tfjob.operator.install.manifests import Object, manifests
from tfjob.operator.options import Settings


def names(kind: str, versions: ApiVersions) -> list[Object]:
    return [one for one in manifests(Settings(image="x", api_versions=versions)) if one["kind"] == kind]


def served(versions: ApiVersions) -> dict[str, list[str]]:
    """The versions by CRD."""
    crds = names("CustomResourceDefinition", versions)
    return {one["spec"]["group"]: [version["name"] for version in one["spec"]["versions"]] for one in crds}


@pytest.mark.parametrize(
    ("text", "by_group"),
    [
        ("v1", {"kubeflow.org": ["v1"]}),
        ("v1beta1, v1", {"kubeflow.org": ["v1", "v1beta1"]}),
        ("tensorflow.org/v1alpha1", {"tensorflow.org": ["v1alpha1"]}),
        ("v1,tensorflow.org/v1alpha1", {"kubeflow.org": ["v1"], "tensorflow.org": ["v1alpha1"]}),
    ],
)
def test_either_group_or_both_are_installed_with_the_versions_that_are_named(
    text: str, by_group: dict[str, list[str]]
) -> None:
    versions = ApiVersions.read(text)
    assert served(versions) == by_group
    (judged,) = names("ValidatingWebhookConfiguration", versions)
    rules = judged["webhooks"][0]["rules"]
    assert {one["apiGroups"][0]: one["apiVersions"] for one in rules} == by_group


def test_the_versions_of_the_documents_are_served_when_nothing_is_said() -> None:
    assert served(ApiVersions()) == {"kubeflow.org": ["v1", "v1beta1", "v1alpha1"], "tensorflow.org": ["v1alpha1"]}


def test_rights_over_jobs_and_crds_come_with_what_needs_them() -> None:
    def verbs(text: str) -> dict[tuple[str, str], list[str]]:
        roles = {one["metadata"]["name"]: one for one in names("ClusterRole", ApiVersions.read(text))}
        rules = roles["tf-job-operator"]["rules"]
        return {(rule["apiGroups"][0], name): rule["verbs"] for rule in rules for name in rule["resources"]}

    assert ("batch", "jobs") not in verbs("v1")
    assert ("kubeflow.org", "tfjobs") not in verbs("tensorflow.org/v1alpha1")
    assert "create" in verbs("tensorflow.org/v1alpha1")["batch", "jobs"]
    assert "patch" in verbs("v1,v1beta1")["apiextensions.k8s.io", "customresourcedefinitions"]


@pytest.mark.parametrize(
    ("text", "keyword"),
    [
        ("v2", "v2"),
        ("v1,", "version"),
        ("v1beta1", "v1beta1"),
    ],
)
def test_what_cannot_be_served_is_refused(text: str, keyword: str, wording: Wording) -> None:
    with pytest.raises(ValueError, match=keyword) as caught:
        ApiVersions.read(text)
    wording(caught.value)
