"""The chart without a cluster: it makes what `tfjob operator manifests` prints, and refuses wrong values by name.

`TFJOB_UPDATE_GOLDEN=1 pytest tests/cluster/chart/test_chart_templates.py` writes the golden files anew.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.golden import check_golden
from support.helm_line import CHART, Helm
from tfjob import __version__
from tfjob.api.dialect import TENSORFLOW
from tfjob.operator.api_versions import DEFAULT, KNOWN, ApiVersions
from tfjob.operator.install.manifests import manifests
from tfjob.operator.options import CONFIG_MAP, Settings
from tfjob.operator.process.config import KEYS, read_config_map

ROOT = Path(__file__).parents[3]
GOLDEN = Path(__file__).with_name("golden")
IMAGE = "registry.example/tf-job-operator:1"

Object = dict[str, Any]

GOLDEN_CASES: dict[str, Object] = {
    "default": {},
    "namespace-only": {"namespaceOnly": True},
    "everything": {
        "imagePullPolicy": "Always",
        "imagePullSecrets": ["key"],
        "test_image": "registry.example/sample:1",
        "test": {"timeoutSeconds": 90},
        "tfImage": "registry.example/tensorflow:1",
        "config": {"configmap": "mine", "file": "/etc/config/gpus.yaml"},
        "replicas": 2,
        "gangScheduler": "volcano",
        "extraArgs": ["--log-level=debug"],
        "metrics": {"serviceMonitor": {"install": True, "labels": {"release": "prometheus"}}},
        "resources": {"limits": {"memory": "1Gi"}},
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "priorityClassName": "system-cluster-critical",
        "podAnnotations": {"team": "training"},
    },
    "bare": {
        "test": {"training": False},
        "crds": {"install": False},
        "rbac": {"install": False},
        "webhook": {"enabled": False},
        "metrics": {"enabled": False},
        "leaderElection": {"enabled": False},
    },
}


def by_name(objects: list[Object]) -> dict[tuple[str, str], Object]:
    return {(one["kind"], one["metadata"]["name"]): one for one in objects}


def of_the_operator(objects: list[Object]) -> dict[tuple[str, str], Object]:
    """Without what only a chart has: its test."""
    return {key: one for key, one in by_name(objects).items() if "-tfjob-test" not in key[1]}


@pytest.mark.parametrize(
    ("values", "settings"),
    [
        ({}, {}),
        ({"namespaceOnly": True}, {"namespace_only": True}),
        ({"replicas": 2}, {"replicas": 2}),
        ({"imagePullPolicy": "Never", "imagePullSecrets": ["key"]}, {"pull_policy": "Never", "pull_secret": "key"}),
        ({"gangScheduler": "volcano"}, {"gang_scheduler_name": "volcano"}),
        ({"tensorboardImage": "registry.example/board:1"}, {"tensorboard_image": "registry.example/board:1"}),
        ({"apiVersions": ["v1"]}, {"api_versions": ApiVersions.read("v1")}),
        ({"apiVersions": ["v1alpha1", "v1", "v1beta1"]}, {"api_versions": ApiVersions.read("v1,v1beta1,v1alpha1")}),
        ({"apiVersions": [TENSORFLOW]}, {"api_versions": ApiVersions.read(TENSORFLOW)}),
        ({"apiVersions": list(KNOWN)}, {"api_versions": ApiVersions.read(",".join(KNOWN))}),
        (
            {"apiVersions": [TENSORFLOW], "namespaceOnly": True},
            {"api_versions": ApiVersions.read(TENSORFLOW), "namespace_only": True},
        ),
        ({"image": "registry.example:5000/a/operator"}, {"image": "registry.example:5000/a/operator"}),
        ({"image": "operator:2@sha256:0"}, {"image": "operator:2@sha256:0"}),
    ],
    ids=lambda one: ",".join(one) or "default",
)
def test_the_chart_makes_what_the_command_makes(helm: Helm, values: Object, settings: Object) -> None:
    """But for one annotation, with which helm leaves a CRD where it is."""
    made = of_the_operator(helm.objects({"image": IMAGE, **values}))
    for (kind, _), one in made.items():
        if kind == "CustomResourceDefinition":
            assert one["metadata"]["annotations"].pop("helm.sh/resource-policy") == "keep"
    assert made == by_name(manifests(Settings(**{"image": IMAGE, "namespace": "kubeflow", **settings})))


def test_what_the_chart_holds_of_the_code_is_up_to_date() -> None:
    tool = [sys.executable, str(ROOT / "tools" / "chart.py"), "--check"]
    done = subprocess.run(tool, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert about["version"] == about["appVersion"] == __version__


def test_helm_has_nothing_to_complain_about(helm: Helm) -> None:
    said = helm.run("lint", "--strict", str(CHART), f"--set=image={IMAGE}")
    assert "1 chart(s) linted, 0 chart(s) failed" in said
    assert not re.search("WARNING|ERROR", said)


@pytest.mark.parametrize("name", GOLDEN_CASES)
def test_the_chart_with_these_values_is_its_golden_file(helm: Helm, name: str) -> None:
    text = helm.template({"image": IMAGE, **GOLDEN_CASES[name]})
    parts = text.split("---\n# Source: tf-job-operator/templates/")
    # The CRD is long, and compared elsewhere.
    shown = "".join(f"---\n# {part}" for part in parts if part and not part.startswith("crds.yaml"))
    shown = re.sub(r"(tf-job-tfjob-test-)[a-z0-9]{6}\b", r"\1RANDOM", shown)
    check_golden(GOLDEN / f"chart-{name}.yaml", shown)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"replicas": "two"}, "at '/replicas': got string, want integer"),
        ({"replicas": 0}, "at '/replicas': minimum: got 0, want 1"),
        ({"cloud": "aws"}, "at '/cloud': value must be one of '', 'azure', 'gke'"),
        ({"rbac": {"instal": True}}, "at '/rbac': additional properties 'instal' not allowed"),
        ({"testImage": "a"}, "at '': additional properties 'testImage' not allowed"),
        ({"test": {"timeoutSeconds": "5m"}}, "at '/test/timeoutSeconds': got string, want integer"),
        ({"image": "a b"}, "at '/image': 'a b' does not match pattern"),
        ({"metrics": {"serviceMonitor": {"interval": "30"}}}, "at '/metrics/serviceMonitor/interval': '30' does not"),
        ({"apiVersions": ["v1", "v2"]}, "at '/apiVersions/1': value must be one of 'v1', 'v1beta2'"),
        ({"apiVersions": []}, "at '/apiVersions': minItems: got 0, want 1"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name(helm: Helm, values: Object, said: str) -> None:
    assert said in helm.template({"image": IMAGE, **values}, code=1)


CONTRADICTIONS: list[tuple[Object, str]] = [
    ({"apiVersions": ["v1beta1"]}, "apiVersions"),
    ({"image": ""}, "image"),
    ({"cloud": "azure", "config": {"configmap": "mine"}}, "config.configmap"),
    ({"replicas": 2, "leaderElection": {"enabled": False}}, "leaderElection.enabled"),
    ({"metrics": {"enabled": False, "serviceMonitor": {"install": True}}}, "metrics.serviceMonitor.install"),
]
"""Values that the schema allows and the templates refuse, with the name that the error must contain."""


def test_values_that_contradict_each_other_are_refused(helm: Helm) -> None:
    shown = ""
    for values, name in CONTRADICTIONS:
        said = helm.template({"image": IMAGE, **values}, code=1)
        (error,) = re.findall(r"execution error at \(.*?\): (.*)", said)
        assert name in error
        shown += f"{json.dumps(values)}\n  {error}\n"
    check_golden(GOLDEN / "chart-errors.txt", shown)


def test_every_value_is_known_to_the_schema_and_every_one_of_the_schema_has_a_default() -> None:
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(schema["properties"]) - {"global"} == set(values)
    assert schema["properties"]["apiVersions"]["items"]["enum"] == list(KNOWN)
    assert values["apiVersions"] == list(DEFAULT)


@pytest.mark.parametrize("cloud", ["azure", "gke"])
def test_the_config_of_a_cloud_is_the_preset_of_the_operator(helm: Helm, cloud: str) -> None:
    (found,) = (one for one in helm.objects({"image": IMAGE, "cloud": cloud}) if one["kind"] == "ConfigMap")
    assert found["metadata"]["name"] == CONFIG_MAP
    preset = ROOT / "src" / "tfjob" / "operator" / "presets" / f"{cloud}.yaml"
    assert found["data"] == {KEYS[0]: preset.read_text()}
    assert read_config_map(found["data"], cloud).warnings == []


def test_without_a_cloud_the_chart_owns_no_config(helm: Helm) -> None:
    """One that somebody made before or makes later is theirs."""
    for values in ({}, {"config": {"configmap": "mine"}}):
        assert not [one for one in helm.objects({"image": IMAGE, **values}) if one["kind"] == "ConfigMap"]


def test_the_test_pod_has_a_name_of_its_own_for_each_release(helm: Helm) -> None:
    (pod,) = (one for one in helm.objects({"image": IMAGE}) if one["kind"] == "Pod")
    assert re.fullmatch(r"tf-job-tfjob-test-[a-z0-9]{6}", pod["metadata"]["name"])
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
