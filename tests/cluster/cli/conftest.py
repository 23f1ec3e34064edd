"""The command line on real clusters: `TFJOB_ON=k8s`, and a kubeconfig whose context names the test's namespace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster.client import Client
from support.cluster_line import end_what_was_started, on_cluster
from support.command_line import CommandLine
from support.installed import Installed
from support.operating import OperatorProcess, operating
from support.room import Room, room
from support.served import serve_tfjobs


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
