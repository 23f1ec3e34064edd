"""The init container of a pod whose files were sent: it unpacks them with the Python of the image."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tfjob.api.types import TFJob
from tfjob.launch.delivery import FOLDER, PARTS_FOLDER, Sender


class Pod:
    """The folders of a pod with two workers, and its containers as processes of this machine."""

    def __init__(self, project: Path, place: Path) -> None:
        container = {"name": "tensorflow", "image": "i:1", "command": ["python", "train.py"]}
        specs = {"Worker": {"replicas": 2, "template": {"spec": {"containers": [container]}}}}
        job = msgspec.convert({"metadata": {"name": "train"}, "spec": {"tfReplicaSpecs": specs}}, TFJob)
        delivery = Sender(project).delivery(job)
        self.spec: dict[str, Any] = (delivery.job.spec.tf_replica_specs["Worker"].template or {})["spec"]
        self.parts, self.files = place / "parts", place / "files"
        self.parts.mkdir()
        self.files.mkdir()
        for config_map in delivery.config_maps:
            for name, content in config_map["binaryData"].items():
                (self.parts / name).write_bytes(base64.b64decode(content))

    def unpack(self, **env: str) -> None:
        """Run the init container."""
        (container,) = self.spec["initContainers"]
        places = {"python": sys.executable, PARTS_FOLDER: str(self.parts), FOLDER: str(self.files)}
        command = [places.get(word, word) for word in container["command"]]
        subprocess.run(command, check=True, env={**os.environ, **env})

    def run(self, code: str) -> None:
        """Run Python in the replica's container."""
        (container,) = self.spec["containers"]
        env = {one["name"]: one["value"].replace(FOLDER, str(self.files)) for one in container["env"]}
        folder = container["workingDir"].replace(FOLDER, str(self.files))
        subprocess.run(
            [sys.executable, "-c", code], check=True, cwd=folder, env={**os.environ, "TF_CONFIG": "{}", **env}
        )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "bin").mkdir(parents=True)
    (folder / "train.py").write_text("print(1)\n")
    (folder / "bin" / "run").touch(0o755)
    (folder / "link").symlink_to("train.py")
    return folder


def test_a_replica_starts_in_a_copy_of_the_folder(project: Path, tmp_path: Path) -> None:
    (project / "data.bin").write_bytes(content := os.urandom(1_500_000))
    pod = Pod(project, tmp_path)
    assert len(list(pod.parts.iterdir())) == 2
    pod.unpack()
    copy = pod.files / "project"
    assert (copy / "data.bin").read_bytes() == content
    assert os.access(copy / "bin" / "run", os.X_OK)
    assert not os.access(copy / "train.py", os.X_OK)
    assert (copy / "link").readlink() == Path("train.py")
    pod.run("import train")


def test_unpacking_again_removes_what_a_replica_changed(project: Path, tmp_path: Path) -> None:
    """The volume outlives a restart of the node, after which the init container runs again."""
    pod = Pod(project, tmp_path)
    pod.unpack()
    copy = pod.files / "project"
    (copy / "train.py").write_text("changed")
    (copy / "made").touch()
    pod.unpack()
    assert (copy / "train.py").read_text() == "print(1)\n"
    assert not (copy / "made").exists()


def test_the_keras_layer_is_loaded_and_the_python_path_of_the_image_works(project: Path, tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "of_image.py").touch()
    pod = Pod(project, tmp_path)
    pod.unpack(PYTHONPATH=str(tmp_path / "library"))
    pod.run("import of_image, sys; assert any(type(one).__name__ == 'Finder' for one in sys.meta_path)")
