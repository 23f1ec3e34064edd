"""The CRD on a cluster of the tests."""

from __future__ import annotations

import json

from devcluster.client import Client, KubectlFailed
from running import wait_until
from tfjob.api.crd import crd


def serve_tfjobs(client: Client) -> None:
    """Applies the CRD as `kubectl apply -f` does, and waits until jobs can be made."""
    wait_until(lambda: _applied(client), 60)
    wait_until(lambda: served(client), 60)


def _applied(client: Client) -> bool:
    """Whether the CRD is there; another process of the run may be making it in the same moment."""
    try:
        client.kubectl("apply", "-f", "-", stdin=json.dumps(crd()))
    except KubectlFailed as error:
        if not any(word in str(error) for word in ("AlreadyExists", "Conflict", "has been modified")):
            raise
        return False
    return True


def served(client: Client) -> bool:
    """Whether the API server knows TFJob."""
    try:
        client.kubectl("get", "tfjobs", "-n", "default")
    except KubectlFailed:
        return False
    return True
