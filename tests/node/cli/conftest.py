"""The command line on a cluster whose pods run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster.client import Client
from support.cluster_line import end_what_was_started, on_cluster
from support.command_line import CommandLine
from support.installed import Installed
from support.operating import operating
from support.served import serve_every_job


@pytest.fixture(autouse=True)
def _no_command_is_left() -> Iterator[None]:
    yield
    end_what_was_started()


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
