"""kubectl alone, from a manifest to its end, on nodes that run it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.client import Client
from devcluster.images import BUSYBOX
from support.operating import operating
from support.room import job, template
from support.running import wait_until
from support.served import serve_every_job

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

PATIENCE = 120
LABELS = "training.kubeflow.org/job-name=by-hand"


@pytest.fixture
def namespace(node_cluster: Client, node_namespace: str) -> Iterator[str]:
    """A namespace that an operator looks after."""
    serve_every_job(node_cluster)
    with operating(node_cluster.kubeconfig, f"--namespace={node_namespace}"):
        yield node_namespace


def test_a_job_is_applied_watched_described_read_and_deleted(node_cluster: Client, namespace: str) -> None:
    """With its pods' logs while it is there, and nothing left of it afterwards."""

    def kubectl(*words: str, **options: Any) -> str:
        return node_cluster.kubectl("-n", namespace, *words, **options)

    chief = container("echo trained by $HOSTNAME")
    ps = container("trap 'exit 143' TERM; while true; do sleep 1; done")
    manifest = job("by-hand", Chief={"template": chief}, PS={"template": ps})
    assert "by-hand created" in kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    kubectl("wait", "tfjob/by-hand", "--for=condition=Succeeded", f"--timeout={PATIENCE}s", timeout=PATIENCE + 10)

    names, values = (line.split() for line in kubectl("get", "tfj", "by-hand").splitlines())
    assert names == ["NAME", "STATE", "READY", "RESTARTS", "REASON", "AGE"]
    # How many ran when the chief was done depends on which was the faster.
    assert (values[0], values[1], values[3]) == ("by-hand", "Succeeded", "0")
    assert "chief-0 exited 0" in kubectl("describe", "tfjob", "by-hand")
    # Events follow the status.
    wait_until(lambda: "TFJobSucceeded" in kubectl("describe", "tfjob", "by-hand").partition("Events:")[2], PATIENCE)
    assert kubectl("logs", "by-hand-chief-0") == "trained by by-hand-chief-0\n"
    assert kubectl("logs", "-l", f"{LABELS},training.kubeflow.org/job-role=master").startswith("trained")
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    assert "deleted" in kubectl("delete", "tfjob", "by-hand")
    wait_until(lambda: not kubectl("get", "pods,services", "-l", LABELS, "-o", "name"), PATIENCE)


def container(script: str) -> dict[str, Any]:
    """A template whose program is a line of shell."""
    own = {"image": BUSYBOX, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", script]}
    return template(container=own, terminationGracePeriodSeconds=2)
