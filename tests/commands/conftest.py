"""The command line on real clusters: `TFJOB_ON=k8s`, and a kubeconfig whose context names the test's namespace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from command_line import CommandLine
from commands.cluster_line import end_what_was_started, on_cluster
from devcluster.client import Client
from installed import Installed
from operating import OperatorProcess, operating
from room import Room, room
from served import serve_every_job, serve_tfjobs


@pytest.fixture(autouse=True)
def _no_command_is_left() -> Iterator[None]:
    yield
    end_what_was_started()


@pytest.fixture(scope="module")
def quiet(control_plane: Client) -> Iterator[Room]:
    """A namespace in which no operator works."""
    serve_tfjobs(control_plane)
    namespace = control_plane.namespace("commands")
    with room(control_plane.kubeconfig, namespace) as found:
        yield found
    control_plane.delete_namespace(namespace)


@pytest.fixture(scope="module")
def operated(control_plane: Client) -> Iterator[tuple[str, OperatorProcess]]:
    """A namespace and the operator that looks after it."""
    serve_tfjobs(control_plane)
    namespace = control_plane.namespace("commands")
    with operating(control_plane.kubeconfig, f"--namespace={namespace}") as operator:
        yield namespace, operator
    control_plane.delete_namespace(namespace)


@pytest.fixture(scope="module")
def team(control_plane: Client, operated: tuple[str, OperatorProcess]) -> Iterator[Room]:
    """That namespace; its pods do what a test says."""
    with room(control_plane.kubeconfig, operated[0]) as found:
        yield found


@pytest.fixture(scope="module")
def operator(operated: tuple[str, OperatorProcess]) -> OperatorProcess:
    """That operator."""
    return operated[1]


@pytest.fixture(scope="module")
def there(tool: Installed, control_plane: Client, team: Room, tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """The command line in the namespace that an operator looks after."""
    return on_cluster(tool, control_plane.kubeconfig, team.namespace, tmp_path_factory.mktemp("there"))


@pytest.fixture(scope="module")
def unattended(
    tool: Installed, control_plane: Client, quiet: Room, tmp_path_factory: pytest.TempPathFactory
) -> CommandLine:
    """The command line in the namespace without an operator."""
    return on_cluster(tool, control_plane.kubeconfig, quiet.namespace, tmp_path_factory.mktemp("unattended"))


@pytest.fixture(scope="module")
def nodes_namespace(node_cluster: Client) -> Iterator[str]:
    """A namespace of a cluster whose pods run, and an operator that looks after it."""
    serve_every_job(node_cluster)
    namespace = node_cluster.namespace("commands")
    with operating(node_cluster.kubeconfig, f"--namespace={namespace}"):
        yield namespace
    node_cluster.delete_namespace(namespace)


@pytest.fixture(scope="module")
def on_nodes(
    tool: Installed, node_cluster: Client, nodes_namespace: str, tmp_path_factory: pytest.TempPathFactory
) -> CommandLine:
    """The command line where pods run."""
    return on_cluster(tool, node_cluster.kubeconfig, nodes_namespace, tmp_path_factory.mktemp("nodes"))
