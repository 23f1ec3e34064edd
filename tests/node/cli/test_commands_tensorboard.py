"""TensorBoard on a cluster whose pods run, in a real browser: by `tfjob tensorboard`, and through `kubectl proxy`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.client import Client
from devcluster.images import BUSYBOX
from support.board import tensorboard_image
from support.board.browser import Browser, until_scalar
from support.board.event_files import write_scalar
from support.cluster_golden import check_cluster_golden
from support.command_line import CommandLine
from support.kubectl_proxy import kubectl_proxy
from support.running import Running, wait_until
from support.training.pods import storage_for

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]

TAG, NAME = "cross_entropy", "curves-tensorboard"
RESTRICTED = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.fixture
def board(on_nodes: CommandLine, node_cluster: Client, nodes_namespace: str, tmp_path: Path) -> Iterator[Path]:
    """Two jobs that wait for the file `stop`, one of them with event files; `restricted` holds in the namespace."""
    node_cluster.load_image(tensorboard_image.image() / "tf-job-tensorboard.tar")
    node_cluster.kubectl("label", "namespace", nodes_namespace, "pod-security.kubernetes.io/enforce=restricted")
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "results", "namespace": nodes_namespace},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    with storage_for(node_cluster, nodes_namespace, "results", tmp_path / "volume") as volume:
        write_scalar(volume / "training_summaries", TAG, [2.0, 1.0, 0.5])
        node_cluster.apply(claim)
        node_cluster.apply(job("curves", nodes_namespace, "training_summaries"), job("early", nodes_namespace, "none"))
        yield volume
    node_cluster.kubectl("label", "namespace", nodes_namespace, "pod-security.kubernetes.io/enforce-")


def job(name: str, namespace: str, folder: str) -> dict[str, Any]:
    """A job whose TensorBoard shows a folder of the claim."""
    volumes = [{"name": "share", "persistentVolumeClaim": {"claimName": "results"}}]
    container = {
        "name": "tensorflow",
        "image": BUSYBOX,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", "while [ ! -e /app/tf_files/stop ]; do sleep 0.2; done"],
        "volumeMounts": [{"name": "share", "mountPath": "/app/tf_files"}],
        "securityContext": RESTRICTED,
    }
    spec = {
        "tensorBoard": {
            "logDir": f"/tmp/tensorflow/{folder}",
            "volumes": volumes,
            "volumeMounts": [{"name": "share", "mountPath": "/tmp/tensorflow"}],
        },
        "tfReplicaSpecs": {"Worker": {"template": {"spec": {"volumes": volumes, "containers": [container]}}}},
    }
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": metadata, "spec": spec}


def test_the_scalar_of_each_job_is_on_its_page_both_ways_and_stays_until_the_job_is_deleted(
    board: Path, on_nodes: CommandLine, node_cluster: Client, nodes_namespace: str, tmp_path: Path
) -> None:
    browser = Browser(tmp_path)
    refused = on_nodes("tensorboard", "curves", "early", "--port", "7000", code=2)
    check_cluster_golden("nodes-tensorboard-port", refused.splitlines()[0])
    words = ("curves", "early", "--port", "0", "--no-browser")
    with Running(on_nodes.tool, on_nodes.home, *words, command="tensorboard") as viewer:
        viewer.wait_for("Ctrl-C", 120)
        told = dict(line.split(": ", 1) for line in viewer.lines if line.startswith("TensorBoard of"))
        # Whether it says so or that there is nothing yet: the page shows that there is.
        assert any(line.endswith(" /tmp/tensorflow/training_summaries") for line in viewer.lines), viewer.lines
        (empty,) = [line for line in viewer.lines if line.endswith(" /tmp/tensorflow/none")]
        check_cluster_golden("nodes-tensorboard-empty", empty)
        assert len(viewer.lines) == 5, viewer.lines
        until_scalar(browser, told["TensorBoard of curves"], TAG)
        viewer.process.send_signal(signal.SIGINT)
        assert viewer.finish() == 0

    (board / "stop").touch()
    on_nodes("wait", "curves", "--timeout", "60s")
    with kubectl_proxy(node_cluster) as proxy:
        until_scalar(browser, f"{proxy}/api/v1/namespaces/{nodes_namespace}/services/{NAME}:80/proxy/", TAG)

    on_nodes("delete", "curves", "early", "--yes")
    # A garbage collector learns of a new kind of owner within half a minute.
    wait_until(lambda: not left(node_cluster, nodes_namespace), 180, lambda: left(node_cluster, nodes_namespace))


def left(client: Client, namespace: str) -> str:
    """What there still is of the TensorBoard."""
    return client.kubectl(
        "get", "deployments,replicasets,services,pods", "-n", namespace, "-l", "app=tensorboard", "-o", "name"
    )
