"""Where the tests of the operator run: rooms of the shared cluster, or a Kubernetes of a module's own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from devcluster import build, cluster, parts
from devcluster.client import Client
from devcluster.cluster import Shape
from helm_line import Helm
from operating import operating
from room import Room, room
from served import serve_tfjobs


@pytest.fixture(scope="module")
def own_cluster(request: pytest.FixtureRequest) -> Iterator[Client]:
    """A control plane of this module's own, for tests that change what all namespaces share.

    A cluster that somebody uses is not the place for such tests.
    """
    if request.config.getoption("kubeconfig"):
        pytest.skip("changes the whole cluster")
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))[:12]
    with cluster.shared(f"tests-{request.module.__name__.rpartition('_')[2]}-{run}", Shape()) as client:
        yield client


@pytest.fixture(scope="module")
def quiet_room(control_plane: Client) -> Iterator[Room]:
    """A namespace of this module's own in which no operator works."""
    serve_tfjobs(control_plane)
    namespace = control_plane.namespace()
    with room(control_plane.kubeconfig, namespace) as found:
        yield found
    control_plane.delete_namespace(namespace)


@pytest.fixture(scope="module")
def team(control_plane: Client, quiet_room: Room) -> Iterator[Room]:
    """A namespace of this module's own, and an operator that looks after it."""
    with operating(control_plane.kubeconfig, f"--namespace={quiet_room.namespace}"):
        yield quiet_room


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """helm without a cluster."""
    return Helm(build.binaries(parts.HELM) / "helm", tmp_path_factory.mktemp("helm"))
