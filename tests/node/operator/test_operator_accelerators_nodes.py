"""Accelerators on a node that advertises them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from devcluster.client import Client
from devcluster.images import BUSYBOX
from support.cluster_line import on_cluster
from support.docs.guide import GUIDES, WITH_KUBECTL, play
from support.installed import Installed
from support.operating import operating
from support.served import serve_every_job

Object = dict[str, Any]


@pytest.mark.root
@pytest.mark.timeout(300)
def test_a_tf_job_of_the_guide_runs_on_a_node_that_advertises_the_resource_of_today(
    node_cluster: Client, node_namespace: str, tool: Installed, tmp_path: Path
) -> None:
    """The node has no GPU, but says so: what is scheduled and injected is what a driver would be used by."""
    (tmp_path / "libcuda.so").write_text("a driver\n")
    node = node_cluster.get("nodes")["items"][-1]["metadata"]["name"]
    serve_every_job(node_cluster)
    line = on_cluster(tool, node_cluster.kubeconfig, node_namespace, tmp_path)
    env = {
        "KUBECONFIG": line.tool.env["KUBECONFIG"],
        "PATH": f"{Path(sys.executable).parent}:{node_cluster.programs}:/usr/bin:/bin",
    }
    words = (f"--namespace={node_namespace}", f"--lease-namespace={node_namespace}")
    page, wanted = of_this_cluster(node_namespace, tmp_path), {"", "On a cluster", WITH_KUBECTL}
    with (
        advertised(node_cluster, node),
        operating(node_cluster.kubeconfig, *words),
        play(page, tmp_path, env=env, wanted=wanted.__contains__) as printed,
    ):
        assert list(printed)
        (pod,) = node_cluster.get("pods", "-n", node_namespace, "-l", "tf_job_name=example-gpu")["items"]
        assert pod["spec"]["nodeName"] == node
        assert node_cluster.kubectl("logs", pod["metadata"]["name"], "-n", node_namespace) == "a driver\n"


def of_this_cluster(namespace: str, folder: Path) -> Path:
    """The guide with the namespace of a test, an image that its nodes have, and a driver in a folder that is there."""
    text = (GUIDES / "gpus.md").read_text()
    for ours, theirs in {
        "namespace: tf-job-operator": f"namespace: {namespace}",
        "-n tf-job-operator": f"-n {namespace}",
        "hostPath: /usr/lib/nvidia-384": f"hostPath: {folder}",
        "image: registry.example.com/train:gpu": f"image: {BUSYBOX}\n              imagePullPolicy: IfNotPresent",
        """'echo "sees GPU $CUDA_VISIBLE_DEVICES"'""": "cat $LD_LIBRARY_PATH/libcuda.so",
    }.items():
        assert ours in text
        text = text.replace(ours, theirs)
    page = folder / "gpus.md"
    page.write_text(text)
    return page


@contextmanager
def advertised(cluster: Client, node: str) -> Iterator[None]:
    """A node says that it has a GPU, as its device plugin would let it."""
    path = "/status/capacity/nvidia.com~1gpu"

    def patch(*changes: Object) -> None:
        words = ("patch", "node", node, "--subresource=status", "--type=json", "-p", json.dumps(changes))
        cluster.kubectl(*words)

    patch({"op": "add", "path": path, "value": "1"})
    try:
        yield
    finally:
        patch({"op": "remove", "path": path})
