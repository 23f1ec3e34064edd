"""`tfjob port-forward --on k8s` to a Service, a Deployment and a job of a cluster whose pods run."""

from __future__ import annotations

import re
import signal
from typing import Any
from urllib.request import urlopen

import pytest

from devcluster.client import Client
from devcluster.images import BUSYBOX
from support.command_line import CommandLine
from support.running import Running, wait_until

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

SERVER = "mkdir /tmp/www; hostname >/tmp/www/index.html; exec httpd -f -p 8137 -h /tmp/www"
LINE = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) -> 8137")


def objects(namespace: str) -> list[dict[str, Any]]:
    """A Deployment whose pods say their names over HTTP, its Service, and a job that does the same."""
    container: dict[str, Any] = {
        "name": "tensorflow",
        "image": BUSYBOX,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", SERVER],
        "ports": [{"name": "http", "containerPort": 8137}],
        "readinessProbe": {"httpGet": {"port": "http", "path": "/"}, "periodSeconds": 1},
    }
    labels = {"app": "web"}
    pod = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": "http"}]},
        },
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "metadata": {"name": "serving", "namespace": namespace},
            "spec": {"tfReplicaSpecs": {"Worker": {"template": {"spec": pod}}}},
        },
    ]


def answer(forwarding: Running) -> str:
    """What comes through the forwarded port; empty if nothing does."""
    port = next(int(found[1]) for line in forwarding.lines if (found := LINE.fullmatch(line)))
    try:
        with urlopen(f"http://127.0.0.1:{port}/", timeout=60) as response:
            return str(response.read().decode().strip())
    except OSError:
        return ""


def test_a_forwarded_port_of_a_service_outlives_its_pod(
    on_nodes: CommandLine, node_cluster: Client, nodes_namespace: str
) -> None:
    node_cluster.apply(*objects(nodes_namespace))
    node_cluster.kubectl("rollout", "status", "deployment/web", "-n", nodes_namespace, "--timeout=120s")
    with Running(on_nodes.tool, on_nodes.home, "svc/web", ":80", command="port-forward") as forwarding:
        forwarding.wait_for("Forwarding")
        first = answer(forwarding)
        assert first.startswith("web-")
        node_cluster.kubectl("delete", "pod", first, "-n", nodes_namespace)
        wait_until(lambda: answer(forwarding) not in ("", first), 60, lambda: "\n".join(forwarding.lines))
        assert any("gone" in line for line in forwarding.lines), forwarding.lines
        forwarding.process.send_signal(signal.SIGINT)
        assert forwarding.finish() == 0

    node_cluster.kubectl(
        "wait", "pod/serving-worker-0", "--for=condition=Ready", "-n", nodes_namespace, "--timeout=60s"
    )
    for name, begins in (("web", "web-"), ("serving", "serving-worker-0"), ("serving/worker-0", "serving-worker-0")):
        with Running(on_nodes.tool, on_nodes.home, name, ":http", command="port-forward") as forwarding:
            forwarding.wait_for("Forwarding")
            said = answer(forwarding)
            assert said.startswith(begins), said

    assert "no port 81" in on_nodes("port-forward", "svc/web", "81", code=3)
    assert "no deployment 'wob'" in on_nodes("port-forward", "deploy/wob", "81", code=3)
    node_cluster.kubectl("delete", "deployment/web", "service/web", "-n", nodes_namespace)
    on_nodes("delete", "serving", "--yes")
