"""TensorFlow for users other than the one who runs the tests, and for the pods of a cluster."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.client import Client
from support.installed import SYSTEM_PYTHON, open_to_everyone
from support.operating import operating
from support.room import Room, room
from support.served import serve_every_job
from support.training.examples import EXAMPLES


@pytest.fixture(scope="session")
def everyones_tensorflow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtualenv with TensorFlow where everybody can read it, for the system's interpreter."""
    folder = tmp_path_factory.mktemp("tensorflow")
    subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    packages = folder / "packages"
    # Links instead of copies where the file system allows it: it is more than a gigabyte.
    if subprocess.run(["cp", "-rl", sysconfig.get_path("purelib"), str(packages)], check=False).returncode:
        shutil.copytree(sysconfig.get_path("purelib"), packages, dirs_exist_ok=True)
    (paths,) = (folder / "venv").glob("lib/python3.*/site-packages")
    (paths / "packages.pth").write_text(f"{packages}\n")
    open_to_everyone(folder)
    return folder / "venv"


@pytest.fixture(scope="session")
def everyones_examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the examples that everybody can read."""
    folder = tmp_path_factory.mktemp("examples") / "examples"
    shutil.copytree(EXAMPLES, folder)
    open_to_everyone(folder)
    return folder


@pytest.fixture
def team(node_cluster: Client, node_namespace: str) -> Iterator[Room]:
    """A namespace, and an operator that looks after it."""
    serve_every_job(node_cluster)
    operator = operating(node_cluster.kubeconfig, f"--namespace={node_namespace}")
    with operator, room(node_cluster.kubeconfig, node_namespace) as found:
        yield found
