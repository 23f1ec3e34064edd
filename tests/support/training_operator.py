"""training-operator v1.9 on a cluster of the tests: built from its Go module, run with the manifests in it.

It runs as a process of this machine and handles TFJobs alone. Its webhook judges them as on any cluster, by a Service
whose endpoint is this machine.
"""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any

import yaml

from devcluster import build
from devcluster.client import Client, KubectlFailed
from devcluster.parts import TRAINING_OPERATOR
from support.ports import free_port
from support.room import job
from support.running import wait_until
from support.served import served

Object = dict[str, Any]
NAME, NAMESPACE = "training-operator", "kubeflow"
WEBHOOK = "validator.training-operator.kubeflow.org"
SECRET = "training-operator-webhook-cert"
CERTIFICATES = Path("k8s-webhook-server/serving-certs")
"""Where it reads its certificate, below /tmp: no flag says otherwise."""
PATIENCE = 120.0


@contextmanager
def training_operator(client: Client, folder: Path) -> Iterator[None]:
    """The operator at work, with its CRD and its webhook, which both stay when it goes."""
    manifests = build.module(TRAINING_OPERATOR) / "manifests" / "base"
    # Server-side, as its own instructions say.
    client.kubectl("apply", "--server-side", "-f", str(manifests / "crds" / "kubeflow.org_tfjobs.yaml"))
    wait_until(lambda: served(client), PATIENCE)
    client.kubectl("create", "namespace", NAMESPACE)
    client.kubectl("create", "secret", "generic", SECRET, "-n", NAMESPACE)
    port = free_port()
    client.apply(*_service(port), _webhook(manifests))
    place = folder / "tmp"
    (place / CERTIFICATES).mkdir(parents=True)
    shutil.copy(client.kubeconfig, place / "kubeconfig")
    log = folder / "training-operator.log"
    with log.open("w") as output:
        process = subprocess.Popen(_command(place, port), stdout=output, stderr=subprocess.STDOUT)
    try:
        _mount_certificate(client, place / CERTIFICATES)
        wait_until(lambda: process.poll() is not None or _judges(client), PATIENCE, lambda: log.read_text()[-4000:])
        assert process.poll() is None, log.read_text()[-4000:]
        yield
        assert process.poll() is None, log.read_text()[-4000:]
        process.send_signal(SIGTERM)
        process.wait(60)
    finally:
        process.send_signal(SIGKILL)
        process.wait()


def _command(place: Path, port: int) -> list[str]:
    """It sees a /tmp of its own, so that nothing of it is left on the machine, nor found by another run."""
    program = build.binaries(TRAINING_OPERATOR) / TRAINING_OPERATOR.name
    own_tmp = 'mount --bind "$0" /tmp && exec env --unset=TMPDIR "$@"'
    return [
        *("unshare", "--mount", "sh", "-c", own_tmp, str(place), str(program)),
        "--kubeconfig=/tmp/kubeconfig",
        "--enable-scheme=tfjob",
        f"--webhook-server-port={port}",
        "--health-probe-bind-address=0",
        "--metrics-bind-address=0",
    ]


def _service(port: int) -> list[Object]:
    """The Service of its webhook without a selector, and this machine as its endpoint, which may not be a loopback."""
    metadata = {"name": NAME, "namespace": NAMESPACE}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"ports": [{"name": "webhook-server", "port": 443, "targetPort": port}]},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**metadata, "labels": {"kubernetes.io/service-name": NAME}},
            "addressType": "IPv4",
            "ports": [{"name": "webhook-server", "port": port}],
            "endpoints": [{"addresses": [_address()], "conditions": {"ready": True}}],
        },
    ]


def _address() -> str:
    """An address of this machine; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        address: str = probe.getsockname()[0]
        return address


def _webhook(manifests: Path) -> Object:
    """Its configuration, with the patches of its kustomization: all of its kinds, as it is installed."""
    configuration: Object = yaml.safe_load((manifests / "webhook" / "manifests.yaml").read_text())
    configuration["metadata"]["name"] = WEBHOOK
    for hook in configuration["webhooks"]:
        hook["clientConfig"]["service"] |= {"name": NAME, "namespace": NAMESPACE}
    return configuration


def _mount_certificate(client: Client, folder: Path) -> None:
    """What a kubelet does: the Secret, which the operator fills when it starts, becomes files."""
    found: dict[str, str] = {}

    def look() -> bool:
        found.update(client.get("secret", SECRET, "-n", NAMESPACE).get("data") or {})
        return "tls.crt" in found

    wait_until(look, PATIENCE)
    # The operator waits for tls.crt alone.
    for name in ("tls.key", "tls.crt"):
        (folder / name).write_bytes(base64.b64decode(found[name]))


def _judges(client: Client) -> bool:
    """Whether its webhook answers for TFJobs; its own readiness comes a moment before that."""
    try:
        client.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(job("probe", worker=1)))
    except KubectlFailed:
        return False
    return True
