"""A cluster of one node with the images of a release."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.client import Client
from devcluster.cluster import NODE, Shape
from support import standin_tensorflow
from support.board import tensorboard_image
from support.own_clusters import helm as helm
from support.own_clusters import own
from support.releasing import release_with_operator
from tfjob import __version__


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
    with own(request, "image", Shape.of(NODE, 1)) as client:
        client.load_image(released / f"tf-job-operator-image-{__version__}.tar")
        client.load_image(tensorboard_image.image() / "tf-job-tensorboard.tar")
        client.load_image(sample)
        yield client
