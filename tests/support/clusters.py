"""Real clusters as fixtures, shared by all tests of a run.

    control_plane              a Kubernetes without nodes; needs no root
    node_cluster               a Kubernetes with three nodes that run real pods; needs root
    control_plane_namespace    a namespace of its own for one test, on either
    node_namespace

Both clusters start when the first test asks for them and are taken down at the end. With pytest-xdist the processes of
a run share them: the first that needs one starts it, the last one takes it down; no grouping is needed for that, but
tests that change the cluster itself (drain a node, install the operator) belong in one group, which one file already
is (`support.at_once`). What a killed run left is taken down by the next one.

`--kubeconfig FILE` runs the same tests on a cluster that is already there, `--kubeconfig current` on that of KUBECONFIG
or ~/.kube/config.

Missing binaries are built after collection, where no test's time limit counts; `python -m devcluster build` does it
beforehand and shows its progress.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import build, cluster, parts
from devcluster.client import Client
from devcluster.cluster import CONTROL_PLANE, NODE, Shape

NODES = 3
NEED_PROGRAMS = {"control_plane", "own_cluster", "helm"}
"""Fixtures without nodes that are built from Go modules."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kubeconfig",
        metavar="FILE",
        help="run the tests of Kubernetes on this cluster instead of one of their own; `current`: that of KUBECONFIG",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cluster: runs on a real Kubernetes, which it starts (added by its fixtures)")
    config.addinivalue_line("markers", "node: of those, what needs nodes that run pods (added by node_cluster)")


@pytest.hookimpl(tryfirst=True)  # before -m is looked at
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        asked = set(getattr(item, "fixturenames", ()))
        if "node_cluster" in asked:
            item.add_marker(pytest.mark.node)
        if item.get_closest_marker("node") or asked & NEED_PROGRAMS:
            item.add_marker(pytest.mark.cluster)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds what the collected tests need."""
    config = session.config
    if config.option.collectonly or getattr(config.option, "numprocesses", None):
        return  # with xdist the processes that run the tests come here themselves
    wanted = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if config.getoption("kubeconfig") and wanted & {"control_plane", "node_cluster"}:
        build.binaries(parts.KUBE)
    elif "node_cluster" in wanted and os.geteuid() == 0:
        cluster.prepare(Shape.of(NODE, NODES))
    elif "control_plane" in wanted:
        cluster.prepare(Shape())
    if "helm" in wanted:
        build.binaries(parts.HELM)


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[Client]:
    """API server, controllers and scheduler of a real Kubernetes."""
    with _given_or_own(request, CONTROL_PLANE, None) as client:
        yield client


@pytest.fixture(scope="session")
def node_cluster(request: pytest.FixtureRequest) -> Iterator[Client]:
    """A real Kubernetes with nodes that run pods."""
    if os.geteuid() and not request.config.getoption("kubeconfig"):
        pytest.skip("nodes need root")
    with _given_or_own(request, NODE, NODES) as client:
        yield client


@pytest.fixture
def control_plane_namespace(control_plane: Client) -> Iterator[str]:
    yield from _namespace(control_plane)


@pytest.fixture
def node_namespace(node_cluster: Client) -> Iterator[str]:
    yield from _namespace(node_cluster)


def _namespace(client: Client) -> Iterator[str]:
    name = client.namespace()
    yield name
    client.delete_namespace(name)


def _given_or_own(
    request: pytest.FixtureRequest, profile: str, nodes: int | None
) -> contextlib.AbstractContextManager[Client]:
    given = request.config.getoption("kubeconfig")
    if given:
        file = _current() if given == "current" else Path(given)
        return contextlib.nullcontext(Client(file, build.binaries(parts.KUBE)))
    cluster.sweep()
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))[:12]
    return cluster.shared(f"tests-{profile}-{run}", Shape.of(profile, nodes))


def _current() -> Path:
    """The first file of KUBECONFIG, or the usual one."""
    files = [file for file in os.environ.get("KUBECONFIG", "").split(os.pathsep) if file]
    return Path(files[0]) if files else Path.home() / ".kube" / "config"
