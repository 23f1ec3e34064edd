"""`tfjob serve --on k8s` where pods run: our server, followed exports, a rolling update under load, and predictions."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from devcluster.client import Client
from devcluster.mounts import HostPython, host_python
from support.cluster_line import on_cluster
from support.command_line import CommandLine
from support.hosted_servers import changed_pods
from support.installed import Installed, open_parents
from support.running import wait_until
from support.serve import models
from support.served import serve_every_job
from tfjob.api.servers import MODEL_SERVER_MODULE

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]
OUR_IMAGE = "/tf-job-serving:"
LOAD = """
import json, sys, time
from pathlib import Path
from urllib.request import Request, urlopen
import numpy as np
from tfjob.serve.client import connect

host, stop = sys.argv[1], Path(sys.argv[2])
sent, failed, offsets = 0, 0, set()
with connect(f"grpc://{host}:9000", "half") as model:
    while not stop.exists():
        try:
            body = json.dumps({"instances": [1.0]}).encode()
            # A new connection for each request over REST, one connection for all requests over gRPC.
            with urlopen(Request(f"http://{host}:8501/v1/models/half:predict", data=body), timeout=30) as answer:
                offsets.add(json.load(answer)["predictions"][0]["offset"])
            offsets.add(float(model.predict({"x": np.array([1.0], np.float32)})["offset"][0]))
        except Exception as error:
            failed += 1
            print("failed", type(error).__name__, error, flush=True)
        sent += 2
        if sent % 20 == 0:
            print(f"sent {sent} failed {failed} versions {sorted(offsets)}", flush=True)
        time.sleep(0.02)
print(f"over: sent {sent} failed {failed} versions {sorted(offsets)}", flush=True)
"""
"""A client in a pod, until a file exists."""


@pytest.fixture(scope="module")
def saved_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.saved_models(tmp_path_factory)


@pytest.fixture(scope="module")
def namespace(node_cluster: Client) -> Iterator[str]:
    serve_every_job(node_cluster)
    name = node_cluster.namespace("serving")
    yield name
    node_cluster.delete_namespace(name)


@pytest.fixture
def there(tool: Installed, node_cluster: Client, namespace: str, tmp_path: Path) -> CommandLine:
    return on_cluster(tool, node_cluster.kubeconfig, namespace, tmp_path)


def hosted(spec: dict[str, Any], host: HostPython) -> list[dict[str, Any]]:
    """Return the changes after which a pod with our image has this machine's Python, which only root may read."""
    changed = copy.deepcopy(spec)
    container = changed["containers"][0]
    if OUR_IMAGE not in container["image"]:
        return []
    assert container["command"] == ["tensorflow_model_server"]
    container["image"] = host.image
    container["command"] = [host.python, "-P", "-m", MODEL_SERVER_MODULE]
    container["volumeMounts"] = [*container["volumeMounts"], *host.mounts]
    changed["volumes"] = [*changed["volumes"], *host.volumes]
    changed["securityContext"] = {}
    return [{"op": "replace", "path": "/spec", "value": changed}]


def job(storage: Path) -> str:
    container = {
        "name": "tensorflow",
        "image": "example.com/train",
        "command": ["true"],
        "volumeMounts": [{"name": "tfjob-data", "mountPath": "/data"}],
    }
    pod = {"containers": [container], "volumes": [{"name": "tfjob-data", "hostPath": {"path": str(storage)}}]}
    spec = {"tfReplicaSpecs": {"Worker": {"template": {"spec": pod}}}}
    return yaml.safe_dump(
        {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "train"}, "spec": spec}
    )


def row(there: CommandLine) -> dict[str, Any]:
    (found,) = json.loads(there("serve", "status", "half-serving", "-o", "json"))["items"]
    return dict(found)


def until(there: CommandLine, ready: str, versions: list[str]) -> None:
    def look() -> bool:
        found = row(there)
        return bool(found["ready"] == ready and found["versions"] == versions)

    wait_until(look, 180, lambda: str(row(there)))


def test_a_rolling_update_and_a_new_export_fail_no_request(
    there: CommandLine, node_cluster: Client, namespace: str, saved_models: Path, tmp_path: Path
) -> None:
    base = tmp_path / "storage" / "output" / "model"
    models.publish(saved_models / "half/1", base, 1)
    open_parents(base / "1")
    there("submit", "-", stdin=job(tmp_path / "storage"))
    host = host_python(ROOT / "src", ROOT / "tests")
    with changed_pods(node_cluster, namespace, tmp_path, lambda spec: hosted(spec, host)):
        there("serve", "train", "--name", "half", "--server", "tfjob", "--replicas", "2")
        until(there, "2/2", ["1"])
        stop = tmp_path / "storage" / "stop"
        load: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "load", "namespace": namespace},
            "spec": host.pod_spec(
                "-c", LOAD, f"half-serving.{namespace}.svc.cluster.local", str(stop), workingDir=str(tmp_path)
            ),
        }
        load["spec"]["volumes"] = [*load["spec"]["volumes"], {"name": "s", "hostPath": {"path": str(tmp_path)}}]
        (container,) = load["spec"]["containers"]
        container["volumeMounts"] = [*container["volumeMounts"], {"name": "s", "mountPath": str(tmp_path)}]
        node_cluster.apply(load)

        def said() -> str:
            return node_cluster.kubectl("logs", "load", "-n", namespace)

        wait_until(lambda: "sent 60" in log_of(node_cluster, namespace), 180)
        before = pods(node_cluster, namespace)
        there("serve", "update", "half-serving", "--image", f"localhost{OUR_IMAGE}next")
        wait_until(lambda: not before & pods(node_cluster, namespace), 240)
        until(there, "2/2", ["1"])
        models.publish(saved_models / "half/2", base, 2)
        until(there, "2/2", ["2"])
        count = said().count("sent ")
        wait_until(lambda: said().count("sent ") > count + 3, 120)
        stop.touch()
        wait_until(lambda: "over:" in said(), 120)
        assert re.search(r"over: sent \d+ failed 0 versions \[1\.0, 2\.0\]", said()), said()

        np.save(tmp_path / "batch.npy", np.array([4.0], np.float32))
        shown = there("predict", "half", "--file", str(tmp_path / "batch.npy"), "--json")
        assert "4.0" in shown
    there("serve", "stop", "half-serving")
    wait_until(lambda: not pods(node_cluster, namespace), 120)


def pods(client: Client, namespace: str) -> set[str]:
    words = ("get", "pods", "-n", namespace, "-l", "app=half-serving", "-o", "jsonpath={.items[*].metadata.name}")
    return set(client.kubectl(*words).split())


def log_of(client: Client, namespace: str) -> str:
    """Return the log of the client; empty if it has not started yet."""
    phase = client.kubectl("get", "pod", "load", "-n", namespace, "-o", "jsonpath={.status.phase}")
    return client.kubectl("logs", "load", "-n", namespace) if phase == "Running" else ""
