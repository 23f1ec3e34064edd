"""Where the tests of the operator run: rooms of the shared cluster, or a Kubernetes of a module's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster.client import Client
from support.operating import operating
from support.own_clusters import helm as helm
from support.own_clusters import own_cluster as own_cluster
from support.room import Room, room
from support.served import serve_tfjobs


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
