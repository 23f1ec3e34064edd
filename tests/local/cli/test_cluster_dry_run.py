"""`run --dry-run --on k8s` prints what the operator would create, also for a TfJob, without a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.command_line import CommandLine

TEMPLATE = {"spec": {"containers": [{"name": "tensorflow", "image": "example.com/train:1"}]}}
TF_JOB = {
    "apiVersion": "tensorflow.org/v1alpha1",
    "kind": "TfJob",
    "metadata": {"name": "dry", "namespace": "team"},
    "spec": {
        "replicaSpecs": [{"tfReplicaType": "MASTER", "template": TEMPLATE}, {"tfReplicaType": "PS"}],
        "tensorboard": {"logDir": "/logs"},
    },
}


def nowhere(folder: Path) -> dict[str, str]:
    """Return an environment with a cluster that does not answer."""
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "c"}}
    config = {"clusters": [cluster], "contexts": [context], "users": [{"name": "c"}], "current-context": "c"}
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return {"KUBECONFIG": str(file)}


def test_a_tf_job_is_printed_with_the_jobs_services_program_and_tensorboard_that_it_gets(
    cli: CommandLine, tmp_path: Path
) -> None:
    done = cli.run("run", "--dry-run", "--on", "k8s", "-", stdin=json.dumps(TF_JOB), env=nowhere(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "RuntimeId" in done.stderr
    cli.golden("dry-run-cluster", done.stderr, exact=True)
    made: list[Any] = list(yaml.safe_load_all(done.stdout))
    assert [(one["kind"], one["metadata"]["name"]) for one in made] == [
        ("TfJob", "dry"),
        ("ConfigMap", "cm-ps-xxxx"),
        ("Service", "master-xxxx-0"),
        ("Service", "ps-xxxx-0"),
        ("Job", "master-xxxx-0"),
        ("Job", "ps-xxxx-0"),
        ("Deployment", "tensorboard-xxxx"),
        ("Service", "tensorboard-xxxx"),
    ]
    assert made[0]["apiVersion"] == "tensorflow.org/v1alpha1"
    assert "clusterIP" not in made[2]["spec"], "the Service gets an address"
    master = made[4]
    assert (master["apiVersion"], master["spec"]["backoffLimit"]) == ("batch/v1", 0)
    assert master["metadata"]["ownerReferences"][0]["kind"] == "TfJob"
    (container,) = master["spec"]["template"]["spec"]["containers"]
    config = json.loads(next(one["value"] for one in container["env"] if one["name"] == "TF_CONFIG"))
    assert config["cluster"] == {"master": ["master-xxxx-0:2222"], "ps": ["ps-xxxx-0:2222"]}


def test_a_job_of_today_is_printed_with_its_tensorboard_and_without_asking_anybody(
    cli: CommandLine, tmp_path: Path
) -> None:
    spec = {"tfReplicaSpecs": {"Worker": {"template": TEMPLATE}}, "tensorBoard": {"logDir": "/logs"}}
    body = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "dry"}, "spec": spec}
    done = cli.run("run", "--dry-run", "--on", "k8s", "-", stdin=json.dumps(body), env=nowhere(tmp_path))
    assert done.returncode == 0, done.stderr
    cli.golden("dry-run-cluster-today", done.stderr, exact=True)
    made = [(one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(done.stdout)]
    assert made[1:] == [
        ("Service", "dry-worker-0"),
        ("Pod", "dry-worker-0"),
        ("Deployment", "dry-tensorboard"),
        ("Service", "dry-tensorboard"),
    ]


@pytest.mark.parametrize("option", ["--warm", "--cold", "--cpu"])
def test_an_option_about_this_machine_is_refused(cli: CommandLine, tmp_path: Path, option: str) -> None:
    done = cli.run("run", "--dry-run", "--on", "k8s", option, "-", stdin=json.dumps(TF_JOB), env=nowhere(tmp_path))
    assert done.returncode == 2
    assert option in done.stderr
    cli.golden("dry-run-cluster-option", done.stderr.replace(option, "OPTION"), exact=True)
