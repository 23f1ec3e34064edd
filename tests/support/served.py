"""The CRD on a cluster of the tests."""

from __future__ import annotations

import json
from typing import Any

from devcluster.client import Client, KubectlFailed
from support.running import wait_until
from tfjob.api.crd.older import tf_job_crd
from tfjob.api.crd.tfjob import crd

PUBLISHED = ("/apis/kubeflow.org/v1", "/openapi/v3/apis/kubeflow.org/v1")
"""What an API server shows of a new kind a moment after it takes the first objects."""


def serve_tfjobs(client: Client) -> None:
    """Applies the CRD as `kubectl apply -f` does, and waits until jobs can be made."""
    wait_until(lambda: _applied(client, crd()), 60)
    wait_until(lambda: served(client) and all(exists(client, "--raw", path) for path in PUBLISHED), 60)


def serve_tf_jobs(client: Client) -> None:
    """The same for the TfJobs of tensorflow.org."""
    wait_until(lambda: _applied(client, tf_job_crd()), 60)
    wait_until(lambda: served(client, "tfjobs.tensorflow.org"), 60)


def serve_every_job(client: Client) -> None:
    """Both kinds, as an installation without settings has them.

    Tests that share a cluster with nodes all do it before their operators start: one that came before a kind would not
    look after it.
    """
    serve_tfjobs(client)
    serve_tf_jobs(client)


def _applied(client: Client, definition: dict[str, Any]) -> bool:
    """Whether the CRD is there; another process of the run may be making it in the same moment."""
    try:
        client.kubectl("apply", "-f", "-", stdin=json.dumps(definition))
    except KubectlFailed as error:
        if not any(word in str(error) for word in ("AlreadyExists", "Conflict", "has been modified")):
            raise
        return False
    return True


def served(client: Client, name: str = "tfjobs") -> bool:
    """Whether the API server knows TFJob, or another kind."""
    return exists(client, name, "-n", "default")


def exists(client: Client, *words: str) -> bool:
    """Whether `kubectl get` finds an object."""
    try:
        client.kubectl("get", *words)
    except KubectlFailed:
        return False
    return True
