"""What an installation consists of: rights without wildcards, a pod of the restricted standard, known names."""

from __future__ import annotations

from typing import Any

import pytest

from tfjob import __version__
from tfjob.operator.api_versions import ApiVersions
from tfjob.operator.install.manifests import arguments, manifests, webhook
from tfjob.operator.options import NAME, Settings

IMAGE = "registry.example/tf-job-operator:1"
WHOLE = Settings(image=IMAGE)
ONE = Settings(image=IMAGE, namespace="team", namespace_only=True)
CLUSTER_KINDS = {
    "CustomResourceDefinition",
    "Namespace",
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingWebhookConfiguration",
}

Object = dict[str, Any]


def of_kind(settings: Settings, kind: str) -> list[Object]:
    return [one for one in manifests(settings) if one["kind"] == kind]


def rules(settings: Settings) -> list[Object]:
    return [rule for kind in ("Role", "ClusterRole") for role in of_kind(settings, kind) for rule in role["rules"]]


@pytest.mark.parametrize("settings", [WHOLE, ONE])
def test_no_rule_has_a_wildcard_a_secret_a_log_or_an_exec(settings: Settings) -> None:
    for rule in rules(settings):
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert not {"secrets", "pods/log", "pods/exec"} & set(rule["resources"])


def test_jobs_are_only_changed_through_their_status() -> None:
    (own,) = (one for one in of_kind(WHOLE, "ClusterRole") if one["metadata"]["name"] == NAME)
    verbs = {
        name: rule["verbs"]
        for rule in own["rules"]
        for name in rule["resources"]
        if rule["apiGroups"] == ["kubeflow.org"]
    }
    assert verbs["tfjobs"] == ["get", "list", "watch", "delete"]
    assert verbs["tfjobs/status"] == ["update"]


def test_of_cluster_wide_settings_only_our_own_are_open() -> None:
    """The CRD is read and the webhook configuration is patched by name; no other one is seen."""
    for rule in rules(WHOLE):
        if {"customresourcedefinitions", "validatingwebhookconfigurations"} & set(rule["resources"]):
            assert rule["resourceNames"] in (["tfjobs.kubeflow.org"], [NAME])


def test_everything_but_the_crd_is_called_as_the_documents_call_it() -> None:
    names = {one["metadata"]["name"] for one in manifests(WHOLE) if one["kind"] != "CustomResourceDefinition"}
    assert names == {NAME, f"{NAME}-edit", f"{NAME}-view"}
    (deployment,) = of_kind(WHOLE, "Deployment")
    assert deployment["spec"]["template"]["metadata"]["labels"]["name"] == NAME
    assert deployment["spec"]["selector"]["matchLabels"] == {"name": NAME}


def test_the_pod_fits_the_restricted_standard() -> None:
    (deployment,) = of_kind(WHOLE, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & set(pod)
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_an_operator_of_one_namespace_needs_nothing_outside_of_it() -> None:
    found = manifests(ONE)
    assert not CLUSTER_KINDS & {one["kind"] for one in found}
    assert {one["metadata"]["namespace"] for one in found} == {"team"}
    (deployment,) = of_kind(ONE, "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "--namespace=team" in container["args"]
    assert not any(word.startswith("--webhook") for word in container["args"])
    assert {port["name"] for port in container["ports"]} == {"metrics", "health"}


def test_a_namespace_that_others_use_too_is_not_made_or_labelled() -> None:
    """Its `restricted` label would keep their pods out."""
    assert of_kind(WHOLE, "Namespace")
    assert not of_kind(Settings(image=IMAGE, namespace="kubeflow"), "Namespace")


def test_the_webhook_blocks_nothing_while_the_operator_is_away() -> None:
    (entry,) = webhook("kubeflow", ApiVersions())["webhooks"]
    assert entry["failurePolicy"] == "Ignore"
    assert entry["timeoutSeconds"] <= 5
    assert entry["sideEffects"] == "None"
    assert entry["matchPolicy"] == "Equivalent"
    assert entry["clientConfig"]["service"]["namespace"] == "kubeflow"
    assert entry["rules"][0]["resources"] == ["tfjobs"], "the status is the operator's own"


def test_older_versions_are_judged_and_converted_by_the_operator_which_may_write_its_certificate_there() -> None:
    settings = Settings(image=IMAGE, namespace="kubeflow", api_versions=ApiVersions.read("v1,v1beta1,v1alpha1"))
    (definition,) = of_kind(settings, "CustomResourceDefinition")
    service = definition["spec"]["conversion"]["webhook"]["clientConfig"]["service"]
    assert (service["name"], service["namespace"], service["path"]) == (NAME, "kubeflow", "/convert")
    (configuration,) = of_kind(settings, "ValidatingWebhookConfiguration")
    assert configuration["webhooks"][0]["rules"][0]["apiVersions"] == ["v1", "v1beta1", "v1alpha1"]
    patched = [rule for rule in rules(settings) if rule["resources"] == ["customresourcedefinitions"]]
    assert [(rule["resourceNames"], rule["verbs"]) for rule in patched] == [
        (["tfjobs.kubeflow.org"], ["get"]),
        (["tfjobs.kubeflow.org"], ["patch"]),
    ]
    alone = Settings(image=IMAGE, api_versions=ApiVersions.read("v1"))
    assert not [rule for rule in rules(alone) if "patch" in rule["verbs"] and "customresource" in str(rule)]


def test_users_who_may_edit_may_edit_jobs_and_those_who_may_view_may_see_them() -> None:
    roles = {one["metadata"]["name"]: one for one in of_kind(WHOLE, "ClusterRole")}
    edit, view = roles[f"{NAME}-edit"], roles[f"{NAME}-view"]
    assert edit["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-edit"] == "true"
    assert view["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert view["rules"][0]["verbs"] == ["get", "list", "watch"]


def test_the_settings_reach_the_deployment() -> None:
    settings = Settings(
        image=IMAGE,
        replicas=2,
        pull_policy="Never",
        pull_secret="key",
        gang_scheduler_name="volcano",
        namespace="kubeflow",
    )
    (deployment,) = of_kind(settings, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert deployment["spec"]["replicas"] == 2
    assert deployment["metadata"]["namespace"] == "kubeflow"
    assert container["image"] == IMAGE
    assert container["imagePullPolicy"] == "Never"
    assert pod["imagePullSecrets"] == [{"name": "key"}]
    assert "--gang-scheduler-name=volcano" in container["args"]
    assert "--leader-elect" in container["args"]
    assert pod["topologySpreadConstraints"]


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("registry.example:5000/team/tf-job-operator:1.2", "registry.example:5000/team/tf-job-tensorboard:1.2"),
        ("tf-job-operator", f"tf-job-tensorboard:{__version__}"),
        (f"registry.example/operator@sha256:{'0' * 64}", f"registry.example/tf-job-tensorboard:{__version__}"),
    ],
)
def test_the_image_of_tensorboard_is_expected_beside_the_operators(image: str, expected: str) -> None:
    assert f"--tensorboard-image={expected}" in arguments(Settings(image=image))
    assert "--tensorboard-image=mine:1" in arguments(Settings(image=image, tensorboard_image="mine:1"))
