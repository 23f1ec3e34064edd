"""Where the tests of the operator run: rooms of the shared cluster, or a Kubernetes of a module's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import standin_tensorflow
import tensorboard_image
from devcluster import build, cluster, parts
from devcluster.client import Client
from devcluster.cluster import NODE, Shape
from helm_line import Helm
from operating import operating
from releasing import release_with_operator
from room import Room, room
from served import serve_tfjobs
from tfjob import __version__


@pytest.fixture(scope="module")
def own_cluster(request: pytest.FixtureRequest) -> Iterator[Client]:
    """A control plane of this module's own, for tests that change what all namespaces share.

    A cluster that somebody uses is not the place for such tests.
    """
    with _own(request, request.module.__name__.rpartition("_")[2], Shape()) as client:
        yield client


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of these sources; the image of TensorBoard, which changes seldom, is taken from the cache."""
    folder = tmp_path_factory.mktemp("release")
    release_with_operator(folder)
    return folder


@pytest.fixture(scope="session")
def image_node(released: Path, request: pytest.FixtureRequest) -> Iterator[Client]:
    """A cluster of one node that has the images, and no operator yet; tests of several files take turns.

    In the sample's place is a stand-in: TensorFlow would take minutes.
    """
    sample = released.with_name(f"{released.name}-sample.tar")
    standin_tensorflow.write(sample, f"localhost/tf-job-sample:{__version__}")
    with _own(request, "image", Shape.of(NODE, 1)) as client:
        client.load_image(released / f"tf-job-operator-image-{__version__}.tar")
        client.load_image(tensorboard_image.image() / "tf-job-tensorboard.tar")
        client.load_image(sample)
        yield client


def _own(request: pytest.FixtureRequest, name: str, shape: Shape) -> AbstractContextManager[Client]:
    if request.config.getoption("kubeconfig"):
        pytest.skip("changes the whole cluster")
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))[:12]
    return cluster.shared(f"tests-{name}-{run}", shape)


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
