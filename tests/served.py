"""The CRD on a cluster of the tests."""

from __future__ import annotations

import json

from devcluster.client import Client, KubectlFailed
from running import wait_until
from tfjob.api.crd import crd


def serve_tfjobs(client: Client) -> None:
    """Applies the CRD as `kubectl apply -f` does, and waits until jobs can be made."""
    client.kubectl("apply", "-f", "-", stdin=json.dumps(crd()))
    wait_until(lambda: served(client), 30)


def served(client: Client) -> bool:
    """Whether the API server knows TFJob."""
    try:
        client.kubectl("get", "tfjobs", "-n", "default")
    except KubectlFailed:
        return False
    return True
