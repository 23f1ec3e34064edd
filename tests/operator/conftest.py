"""A Kubernetes for tests that change what all namespaces share: the CRD, webhooks, an installation."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from devcluster import cluster
from devcluster.client import Client
from devcluster.cluster import Shape


@pytest.fixture(scope="module")
def own_cluster(request: pytest.FixtureRequest) -> Iterator[Client]:
    """A control plane of this module's own; a cluster that somebody uses is not the place for such tests."""
    if request.config.getoption("kubeconfig"):
        pytest.skip("changes the whole cluster")
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))[:12]
    with cluster.shared(f"tests-{request.module.__name__.rpartition('_')[2]}-{run}", Shape()) as client:
        yield client
