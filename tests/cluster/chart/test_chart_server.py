"""The chart on a real API server: what helm makes, upgrades, refuses to adopt, and keeps."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.client import Client
from support.helm_line import CHART, RELEASE, Helm
from support.running import wait_until
from support.served import exists, served
from tfjob import __version__
from tfjob.api.crd.older import TF_JOB_CRD_NAME as TF_JOB_CRD_NAME
from tfjob.api.crd.tfjob import NAME as CRD_NAME
from tfjob.api.crd.tfjob import RELEASE as CRD_RELEASE
from tfjob.api.crd.tfjob import crd, crd_problem
from tfjob.operator.options import NAME
from tfjob.operator.webhook.certificates import make

pytestmark = pytest.mark.timeout(400)

IMAGE = "registry.example/tf-job-operator:1"
CONFIG = "tf-job-operator-config"
GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "helm.md"
LINE = re.compile(r"`(helm (?:install|upgrade) [^`]*)`")
JOB: dict[str, Any] = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "TFJob",
    "metadata": {"name": "mnist", "namespace": "default"},
    "spec": {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}}}},
}


class Cluster:
    """A cluster, and helm on it."""

    def __init__(self, client: Client, helm: Helm) -> None:
        self.client = client
        self.helm = dataclasses.replace(helm, client=client)

    def install(self, *words: str, chart: Path = CHART, release: str = RELEASE, code: int = 0) -> str:
        return self.helm.run("install", release, str(chart), f"--set=image={IMAGE}", *words, code=code)

    def upgrade(self, *words: str, chart: Path = CHART) -> str:
        return self.helm.run("upgrade", RELEASE, str(chart), f"--set=image={IMAGE}", *words)

    def try_line(self, line: str, code: int = 0) -> str:
        """What helm says to a line of a guide; nothing is made."""
        words = line.replace("${CHART}", str(CHART)).split()[1:]
        return self.helm.run(*words, "--dry-run=server", f"--set=image={IMAGE}", code=code)

    def crd(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get("crd", CRD_NAME)
        return found

    def there(self, *words: str) -> bool:
        return exists(self.client, *words)

    def submit(self) -> None:
        wait_until(lambda: served(self.client), 90)
        self.client.apply(JOB)

    def clear(self) -> None:
        for release in json.loads(self.helm.run("list", "-o", "json")):
            self.helm.run("uninstall", release["name"], "--wait")
        # The API server first removes the jobs; on a busy machine this has taken more than a minute.
        self.client.kubectl("delete", "--ignore-not-found", "crd", CRD_NAME, TF_JOB_CRD_NAME, timeout=180)
        wait_until(lambda: not served(self.client), 90)


@pytest.fixture
def cluster(own_cluster: Client, helm: Helm) -> Iterator[Cluster]:
    """Without an operator before and after."""
    found = Cluster(own_cluster, helm)
    yield found
    found.clear()


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The chart of a release before this one, whose CRD lacks a field."""
    chart = shutil.copytree(CHART, tmp_path / "older")
    definition = crd()
    definition["metadata"]["annotations"][CRD_RELEASE] = "0.0.9"
    (version,) = (one for one in definition["spec"]["versions"] if one["storage"])
    del version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["failure"]
    (chart / "files" / "crds" / f"{CRD_NAME}.yaml").write_text(yaml.safe_dump(definition))
    about = chart / "Chart.yaml"
    about.write_text(about.read_text().replace(f"ersion: {__version__}", "ersion: 0.0.9"))
    return chart


def test_an_installation_is_complete_and_goes_but_for_crd_and_jobs(cluster: Cluster) -> None:
    cluster.install("--set=cloud=azure")
    assert crd_problem(cluster.crd()) is None
    made = ("deployment", "service", "serviceaccount", "role", "rolebinding")
    assert all(cluster.there(kind, NAME) for kind in made)
    assert all(cluster.there(kind, NAME) for kind in ("clusterrole", "clusterrolebinding"))
    assert list(cluster.client.get("configmap", CONFIG)["data"]) == ["controller_config_file.yaml"]
    cluster.submit()
    said = cluster.helm.run("uninstall", RELEASE, "--wait")
    assert all(f"[CustomResourceDefinition] {name}" in said for name in (CRD_NAME, TF_JOB_CRD_NAME))
    assert not any(cluster.there(kind, NAME) for kind in (*made, "clusterrole", "validatingwebhookconfiguration"))
    assert not cluster.there("configmap", CONFIG)
    assert cluster.there("tfjob", JOB["metadata"]["name"])


def test_an_upgrade_brings_the_crd_of_its_release_and_leaves_certificates_and_jobs_alone(
    cluster: Cluster, older: Path
) -> None:
    """The operator writes its certificate into the webhook's configuration, which the chart makes without one."""
    cluster.install(chart=older)
    assert crd_problem(cluster.crd()) is not None
    cluster.submit()
    patch = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "Y2VydGlmaWNhdGU="}]
    cluster.client.kubectl("patch", "validatingwebhookconfiguration", NAME, "--type=json", "-p", json.dumps(patch))
    cluster.upgrade("--set=replicas=2")
    assert crd_problem(cluster.crd()) is None
    assert cluster.client.get("deployment", NAME)["spec"]["replicas"] == 2
    (webhook,) = cluster.client.get("validatingwebhookconfiguration", NAME)["webhooks"]
    assert webhook["clientConfig"]["caBundle"] == patch[0]["value"]
    assert cluster.there("tfjob", JOB["metadata"]["name"])


def test_older_versions_are_served_and_taken_back_by_an_upgrade(cluster: Cluster) -> None:
    """The certificate that the operator wrote beside their conversion goes with it."""
    cluster.install("--set=apiVersions={v1,v1beta1,v1alpha1}")
    names = [one["name"] for one in cluster.crd()["spec"]["versions"]]
    assert names == ["v1", "v1beta1", "v1alpha1"]
    bundle = base64.b64encode(make(["localhost"], datetime.now(UTC)).certificate).decode()
    patch = [{"op": "add", "path": "/spec/conversion/webhook/clientConfig/caBundle", "value": bundle}]
    cluster.client.kubectl("patch", "crd", CRD_NAME, "--type=json", "-p", json.dumps(patch))
    cluster.upgrade("--set=apiVersions={v1,v1beta1}")
    conversion = cluster.crd()["spec"]["conversion"]
    assert conversion["webhook"]["clientConfig"]["caBundle"] == bundle
    cluster.upgrade("--set=apiVersions={v1}")
    assert [one["name"] for one in cluster.crd()["spec"]["versions"]] == ["v1"]
    assert cluster.crd()["spec"]["conversion"] == {"strategy": "None"}
    cluster.submit()


def test_a_crd_that_an_uninstalled_release_left_is_upgraded_by_the_next(cluster: Cluster, older: Path) -> None:
    cluster.install(chart=older)
    cluster.submit()
    cluster.helm.run("uninstall", RELEASE, "--wait")
    cluster.install()
    assert crd_problem(cluster.crd()) is None
    assert cluster.there("tfjob", JOB["metadata"]["name"])


def test_a_crd_that_is_not_of_helm_is_refused_by_name_and_taken_over_when_asked(cluster: Cluster, older: Path) -> None:
    """As `tfjob operator install`, kubectl or another operator made it; here with a field less."""
    theirs = yaml.safe_load((older / "files" / "crds" / f"{CRD_NAME}.yaml").read_text())
    cluster.client.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(theirs))
    cluster.submit()
    said = cluster.install(code=1)
    assert f'CustomResourceDefinition "{CRD_NAME}" in namespace "" exists and cannot be imported' in said
    assert not cluster.there("deployment", NAME), "nothing was made"
    cluster.install("--take-ownership")
    assert crd_problem(cluster.crd()) is None
    assert cluster.crd()["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert cluster.there("tfjob", JOB["metadata"]["name"])


def test_a_crd_that_somebody_else_looks_after_is_left_alone_when_asked(cluster: Cluster) -> None:
    cluster.client.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(crd()))
    before = cluster.crd()
    cluster.install("--set=crds.install=false")
    after = cluster.crd()
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]


def test_a_second_operator_of_the_cluster_is_refused(cluster: Cluster) -> None:
    """Two would handle the same jobs."""
    cluster.install()
    cluster.client.kubectl("create", "namespace", "second")
    said = cluster.install("-n", "second", "--set=crds.install=false", code=1)
    assert 'ClusterRole "tf-job-operator" in namespace "" exists and cannot be imported' in said


def test_a_config_that_was_made_before_is_neither_changed_nor_removed(cluster: Cluster) -> None:
    cluster.client.kubectl("create", "configmap", CONFIG, "--from-literal=controller_config_file.yaml=accelerators:")
    before = cluster.client.get("configmap", CONFIG)
    cluster.install()
    cluster.helm.run("uninstall", RELEASE, "--wait")
    assert cluster.client.get("configmap", CONFIG) == before
    cluster.client.kubectl("delete", "configmap", CONFIG)


def test_the_lines_that_the_guide_gives_for_helm_2_lines_are_lines_of_helm_3(cluster: Cluster) -> None:
    table = re.findall(r"^\| (.*?) \| (.*?) \|$", GUIDE.read_text(), re.MULTILINE)
    pairs = [(LINE.findall(old), LINE.findall(new)) for old, new in table if LINE.search(new)]
    assert len(pairs) >= 5
    for old, new in pairs:
        for line in old:
            assert "must either provide a name or specify --generate-name" in cluster.try_line(line, code=1)
        for line in new:
            assert "STATUS: pending-install" in cluster.try_line(line)
