"""Pods that tfjob makes, on a cluster without a registry: this machine's Python instead of an image with TensorFlow.

Of default parameter servers and of scripts nothing can be written into a template. An admission webhook adds what the
image would hold while the test runs; command, program, environment and policies stay what tfjob made them.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from devcluster.client import Client
from devcluster.mounts import HostPython
from support.running import wait_until
from tfjob.launch.delivery import FOLDER
from tfjob.operator.webhook import certificates

Object = dict[str, Any]
SERVER_FOLDER = "/ps-server"
GROUPS = ("initContainers", "containers")


Patch = Callable[[Object], list[Object]]
"""What to change in the spec of a pod, as a JSON patch."""


@contextmanager
def hosted_servers(client: Client, namespace: str, host: HostPython, folder: Path) -> Iterator[None]:
    """While it is open, the default parameter servers of a namespace find this machine's interpreter as `python`."""
    with changed_pods(client, namespace, folder, lambda spec: server_patch(spec, host)):
        yield


@contextmanager
def hosted_scripts(client: Client, namespace: str, host: HostPython, folder: Path) -> Iterator[None]:
    """While it is open, pods of a namespace whose files were sent find this machine's interpreter as `python`."""
    with changed_pods(client, namespace, folder, lambda spec: _python_patch(spec, host, FOLDER)):
        yield


@contextmanager
def changed_pods(client: Client, namespace: str, folder: Path, patch: Patch) -> Iterator[None]:
    """While it is open, every new pod of a namespace is changed."""
    certificate = certificates.make(["127.0.0.1"], datetime.now(UTC))
    pem = folder / "webhook.pem"
    pem.write_bytes(certificate.key + certificate.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    asked = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(patch, asked))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    name = f"hosted-servers-{namespace}"
    client.apply(_configuration(name, namespace, server.server_port, certificate.certificate))
    try:
        wait_until(lambda: _is_asked(client, namespace, asked), 60, lambda: "the API server does not know the webhook")
        yield
    finally:
        client.kubectl("delete", "mutatingwebhookconfiguration", name)
        server.shutdown()
        server.server_close()
        thread.join(60)


def _is_asked(client: Client, namespace: str, asked: threading.Event) -> bool:
    """Whether the webhook is asked about new pods by now; none is made for that."""
    container = {"name": "none", "image": "none:1"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "none"}, "spec": {"containers": [container]}}
    client.kubectl("create", "--dry-run=server", "-n", namespace, "-f", "-", stdin=json.dumps(pod))
    return asked.is_set()


def _configuration(name: str, namespace: str, port: int, authority: bytes) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "hosted-servers.tests.tfjob",
                "clientConfig": {
                    "url": f"https://127.0.0.1:{port}/",
                    "caBundle": base64.b64encode(authority).decode(),
                },
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


def _handler(patch: Patch, asked: threading.Event) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.set()
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer: Object = {"uid": review["request"]["uid"], "allowed": True}
            if changes := patch(review["request"]["object"]["spec"]):
                answer |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(changes).encode()).decode()}
            body = json.dumps({**review, "response": answer}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name is the base class's)
            """Says nothing."""

    return Handler


def server_patch(spec: Object, host: HostPython) -> list[Object]:
    """What a pod with a default parameter server lacks."""
    return _python_patch(spec, host, SERVER_FOLDER)


def _python_patch(spec: Object, host: HostPython, program: str) -> list[Object]:
    """What the containers lack that have their program in a folder of that name."""
    changes: list[Object] = []
    found = [(group, index, one) for group in GROUPS for index, one in enumerate(spec.get(group, ()))]
    for group, index, container in found:
        if program not in [mount["mountPath"] for mount in container.get("volumeMounts", ())]:
            continue
        at = f"/spec/{group}/{index}"
        path = {"name": "PATH", "value": f"{Path(host.python).parent}:/usr/bin:/bin"}
        changes += [
            {"op": "add", "path": f"{at}/volumeMounts", "value": [*container["volumeMounts"], *host.mounts]},
            {"op": "add", "path": f"{at}/env", "value": [*container.get("env", ()), path]},
            {"op": "add", "path": "/spec/volumes", "value": [*spec["volumes"], *host.volumes]},
        ]
    return changes
