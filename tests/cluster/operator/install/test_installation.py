"""Install, hand-over and uninstall on a real API server, through the command line."""

from __future__ import annotations

import base64
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from devcluster.client import Client, KubectlFailed
from support.cluster_golden import check_cluster_golden
from support.installed import Installed
from support.running import wait_until
from support.served import exists, serve_tfjobs, served
from tfjob.api.crd.tfjob import NAME as CRD_NAME
from tfjob.operator.install.handover import WEBHOOK_ENTRY
from tfjob.operator.options import NAME, NAMESPACE
from tfjob.operator.webhook.certificates import make

Object = dict[str, Any]

pytestmark = pytest.mark.timeout(400)

IMAGE = "registry.example/tf-job-operator:1"
THEIRS = "validator.training-operator.kubeflow.org"
JOB: Object = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "TFJob",
    "metadata": {"name": "mnist", "namespace": "default"},
    "spec": {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}}}},
}


class Cluster:
    """The cluster and `tfjob operator` on it."""

    def __init__(self, client: Client, tool: Installed, home: Path) -> None:
        self.client = client
        self.tool = tool
        self.home = home

    def operator(self, *words: str, code: int = 0) -> str:
        """What the command printed."""
        done = subprocess.run(
            [*self.tool.command, "operator", *words],
            env={**self.tool.environment(self.home), "KUBECONFIG": str(self.client.kubeconfig)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def install(self, *words: str, code: int = 0) -> str:
        return self.operator("install", "--image", IMAGE, "--no-wait", *words, code=code)

    def submit(self, job: Object) -> None:
        """Makes a job, as soon as the API server knows what that is."""
        wait_until(lambda: served(self.client), 60)
        self.client.apply(job)

    def there(self, *words: str) -> bool:
        return exists(self.client, *words)


@pytest.fixture
def cluster(own_cluster: Client, tool: Installed, tmp_path: Path) -> Iterator[Cluster]:
    """Without an operator before and after."""
    found = Cluster(own_cluster, tool, tmp_path)
    yield found
    found.operator("uninstall", "--purge", "--yes")
    wait_until(lambda: not found.there("crd", CRD_NAME) and not found.there("namespace", NAMESPACE), 180)


def test_an_installation_is_complete_and_its_pod_is_admitted_under_the_restricted_standard(cluster: Cluster) -> None:
    printed = cluster.install()
    assert f"applied Deployment {NAME}" in printed
    place = ("-n", NAMESPACE)
    wait_until(lambda: bool(cluster.client.get("pods", "-l", f"name={NAME}", *place)["items"]), 60)
    assert cluster.there("serviceaccount", NAME, *place)
    assert cluster.there("service", NAME, *place)
    assert cluster.there("clusterrole", f"{NAME}-edit")
    assert cluster.client.get("validatingwebhookconfiguration", NAME)["webhooks"][0]["failurePolicy"] == "Ignore"
    cluster.submit(JOB)
    assert "mnist" in cluster.client.kubectl("get", "tfj", "-n", "default")


def test_installing_again_is_the_upgrade_and_keeps_the_certificate(cluster: Cluster) -> None:
    cluster.install()
    bundle = base64.b64encode(make(["localhost"], datetime.now(UTC)).certificate).decode()
    patch = json.dumps([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}])
    cluster.client.kubectl("patch", "validatingwebhookconfiguration", NAME, "--type=json", "-p", patch)
    cluster.operator("install", "--image", "registry.example/tf-job-operator:2", "--replicas", "2", "--no-wait")
    deployment = cluster.client.get("deployment", NAME, "-n", NAMESPACE)["spec"]
    assert deployment["template"]["spec"]["containers"][0]["image"] == "registry.example/tf-job-operator:2"
    assert deployment["replicas"] == 2
    assert (
        cluster.client.get("validatingwebhookconfiguration", NAME)["webhooks"][0]["clientConfig"]["caBundle"] == bundle
    )


def test_an_operator_that_does_not_come_up_says_why(cluster: Cluster) -> None:
    def says_why() -> bool:
        printed = cluster.operator("install", "--image", IMAGE, "--timeout", "3s", code=2)
        assert NAME in printed
        check_cluster_golden("install-not-ready", printed.partition("error: ")[2].partition(": ")[0])
        return "no nodes available" in printed  # the scheduler's words

    wait_until(says_why, 60)  # the scheduler may look at its pod later


def test_uninstall_keeps_the_jobs_and_purge_names_them_first(cluster: Cluster) -> None:
    cluster.install()
    cluster.submit(JOB)
    cluster.operator("uninstall")
    assert not cluster.there("deployment", NAME, "-n", NAMESPACE)
    assert not cluster.there("validatingwebhookconfiguration", NAME)
    assert not cluster.there("clusterrole", NAME)
    assert cluster.there("tfjob", "mnist", "-n", "default")
    assert cluster.there("clusterrole", f"{NAME}-view"), "users may still look at their jobs"
    refused = cluster.operator("uninstall", "--purge", code=2)
    check_cluster_golden("uninstall-purge", refused)
    assert "TFJob default/mnist" in refused
    assert f"CustomResourceDefinition {CRD_NAME}" in refused
    assert "--purge --yes" in refused
    assert cluster.there("tfjob", "mnist", "-n", "default")
    cluster.operator("uninstall", "--purge", "--yes")
    wait_until(lambda: not cluster.there("crd", CRD_NAME), 60)


def test_what_is_not_ours_is_not_removed(cluster: Cluster) -> None:
    foreign = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": NAME}}
    cluster.client.apply({**foreign, "rules": []})
    check_cluster_golden("uninstall-foreign", cluster.operator("uninstall"))
    assert cluster.there("clusterrole", NAME)
    cluster.client.kubectl("delete", "clusterrole", NAME)


def test_an_operator_of_one_namespace_needs_the_crd_and_makes_nothing_outside(cluster: Cluster) -> None:
    words = ("-n", "team", "--namespace-only")
    refused = cluster.install(*words, code=2)
    assert "tfjob operator manifests --crd-only" in refused
    check_cluster_golden("install-without-crd", refused)
    assert not cluster.there("namespace", "team")
    serve_tfjobs(cluster.client)
    printed = cluster.install(*words)
    assert "Cluster" not in printed
    assert "Webhook" not in printed
    assert cluster.there("role", NAME, "-n", "team")
    cluster.operator("uninstall", *words)
    assert not cluster.there("deployment", NAME, "-n", "team")
    assert cluster.there("crd", CRD_NAME)


def training_operator() -> list[Object]:
    """A Deployment and a webhook configuration like those of training-operator v1.9, with what matters here."""
    pod = {"containers": [{"name": "training-operator", "image": "kubeflow/training-operator:v1-5170a36"}]}
    names = ["validator.pytorchjob.training-operator.kubeflow.org", WEBHOOK_ENTRY]
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubeflow"}},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "training-operator", "namespace": "kubeflow"},
            "spec": {
                "selector": {"matchLabels": {"control-plane": "theirs"}},
                "template": {"metadata": {"labels": {"control-plane": "theirs"}}, "spec": pod},
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": THEIRS},
            "webhooks": [
                {
                    "name": name,
                    "clientConfig": {"service": {"name": "training-operator", "namespace": "kubeflow"}},
                    "rules": [
                        {
                            "apiGroups": ["kubeflow.org"],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE"],
                            "resources": [name.split(".")[1] + "s"],
                        }
                    ],
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                }
                for name in names
            ],
        },
    ]


def other_kind() -> Object:
    """A CRD of PyTorchJob, as training-operator has it, without its fields."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "pytorchjobs.kubeflow.org"},
        "spec": {
            "group": "kubeflow.org",
            "names": {"kind": "PyTorchJob", "plural": "pytorchjobs"},
            "scope": "Namespaced",
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}},
            ],
        },
    }


@pytest.fixture
def beside(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster where training-operator handles TFJob and PyTorchJob."""
    cluster.client.apply(*training_operator(), other_kind())
    wait_until(lambda: cluster.there("pytorchjobs", "-n", "default"), 60)
    yield cluster
    cluster.client.kubectl("delete", "deployment", "training-operator", "-n", "kubeflow")
    cluster.client.kubectl("delete", "validatingwebhookconfiguration", THEIRS)
    cluster.client.kubectl("delete", "crd", "pytorchjobs.kubeflow.org")


def handed_over(cluster: Cluster) -> None:
    """Both changes are there, and no more."""
    (left,) = cluster.client.get("validatingwebhookconfiguration", THEIRS)["webhooks"]
    assert left["name"] == "validator.pytorchjob.training-operator.kubeflow.org"
    deployment = cluster.client.get("deployment", "training-operator", "-n", "kubeflow")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["args"] == ["--enable-scheme=PyTorchJob"]


def test_an_operator_that_handles_tfjobs_is_found_and_the_printed_commands_hand_over(beside: Cluster) -> None:
    printed = beside.install(code=2)
    check_cluster_golden("install-other-operator", printed)
    assert not beside.there("crd", CRD_NAME), "nothing was changed"
    commands = [line.strip() for line in printed.splitlines() if line.startswith("  kubectl ")]
    assert len(commands) == 2
    for command in commands:
        subprocess.run(["sh", "-c", command], env=beside.client.environment(), check=True)
    handed_over(beside)
    beside.install()


def test_take_over_runs_them_and_waits_for_the_change(beside: Cluster) -> None:
    with pods_that_become_ready(beside.client, "kubeflow"):
        printed = beside.install("--take-over")
    commands = [line for line in printed.splitlines() if "kubectl" in line]
    assert len(commands) == 2
    check_cluster_golden("install-take-over", "\n".join(commands))
    handed_over(beside)


@contextmanager
def pods_that_become_ready(client: Client, namespace: str) -> Iterator[None]:
    """Does what a node would do: there is none in this cluster."""
    done = threading.Event()
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-16T00:00:00Z"}
    patch = json.dumps({"status": {"phase": "Running", "conditions": [condition]}})

    def work() -> None:
        while not done.wait(0.3):
            for name in client.kubectl("get", "pods", "-n", namespace, "-o", "name").split():
                with suppress(KubectlFailed):
                    client.kubectl("patch", name, "-n", namespace, "--subresource=status", "--type=merge", "-p", patch)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_older_versions_come_and_go_with_a_setting_and_keep_the_certificate(cluster: Cluster) -> None:
    """Taking them out, or the operator, leaves v1, in which every job is stored."""
    bundle = base64.b64encode(make(["localhost"], datetime.now(UTC)).certificate).decode()
    trusted = {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": bundle}}}}}
    words = ("patch", "crd", CRD_NAME, "--type=merge", "--field-manager=tfjob-webhook", "-p", json.dumps(trusted))

    def found() -> tuple[list[str], Object]:
        spec = cluster.client.get("crd", CRD_NAME)["spec"]
        return [one["name"] for one in spec["versions"]], spec["conversion"]

    cluster.install("--api-versions", "v1,v1beta1,v1alpha1")
    cluster.client.kubectl(*words)
    cluster.install("--api-versions", "v1,v1alpha1")
    served, conversion = found()
    assert served == ["v1", "v1alpha1"]
    assert conversion["webhook"]["clientConfig"]["caBundle"] == bundle
    assert conversion["webhook"]["clientConfig"]["service"]["namespace"] == NAMESPACE
    printed = cluster.install("--api-versions", "v1").splitlines()
    check_cluster_golden("install-v1-alone", "\n".join(line for line in printed if CRD_NAME in line))
    assert found() == (["v1"], {"strategy": "None"})
    cluster.submit(JOB)
    cluster.install("--api-versions", "v1,v1beta1")
    cluster.client.kubectl(*words)
    cluster.operator("uninstall")
    assert found() == (["v1"], {"strategy": "None"})
    assert cluster.there("tfjob", "mnist", "-n", "default")


def test_older_versions_are_refused_where_there_is_no_webhook(cluster: Cluster) -> None:
    printed = cluster.install("--namespace-only", "--api-versions", "v1,v1beta1", code=2)
    assert "v1beta1" in printed
    assert "--namespace-only" in printed
    check_cluster_golden("install-without-webhook", printed)
