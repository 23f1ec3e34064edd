"""A Kubernetes of a module's own, and helm without any."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from devcluster import build, cluster, parts
from devcluster.client import Client
from devcluster.cluster import Shape
from support.helm_line import Helm


@pytest.fixture(scope="module")
def own_cluster(request: pytest.FixtureRequest) -> Iterator[Client]:
    """A control plane of this module's own, for tests that change what all namespaces share.

    A cluster that somebody uses is not the place for such tests.
    """
    with own(request, request.module.__name__.rpartition("_")[2], Shape()) as client:
        yield client


def own(request: pytest.FixtureRequest, name: str, shape: Shape) -> AbstractContextManager[Client]:
    if request.config.getoption("kubeconfig"):
        pytest.skip("changes the whole cluster")
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))[:12]
    return cluster.shared(f"tests-{name}-{run}", shape)


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """helm without a cluster."""
    return Helm(build.binaries(parts.HELM) / "helm", tmp_path_factory.mktemp("helm"))
