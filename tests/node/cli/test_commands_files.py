"""Code of this machine in pods: the project folder reaches every replica, without a build of an image."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from devcluster.client import Client
from devcluster.images import BUSYBOX
from support.cluster_line import start
from support.command_line import CommandLine
from support.conformance import standin_image
from support.running import ending
from support.training.pods import main_process

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

IMAGE = "standin:1"
"""An image with Python."""
MODEL = "LAYERS = 3\n"
TRAIN = """
import os
import sys
import time

from pkg.model import LAYERS

here = sorted(os.path.join(root, name)[2:] for root, _, names in os.walk(".") for name in names if "__" not in root)
print(os.getcwd(), *here, LAYERS, *sys.argv[1:], flush=True)
open("made-here", "w").close()
while "--wait" in sys.argv and not os.path.exists("/tmp/go"):
    time.sleep(0.05)
"""
SEEN = "/opt/tfjob/project pkg/__init__.py pkg/model.py pkg/train.py"


@pytest.fixture(scope="module", autouse=True)
def _image(node_cluster: Client, tmp_path_factory: pytest.TempPathFactory) -> None:
    standin_image.load(node_cluster, tmp_path_factory.mktemp("image"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg" / "__init__.py").touch()
    (folder / "pkg" / "model.py").write_text(MODEL)
    (folder / "pkg" / "train.py").write_text(TRAIN)
    (folder / ".env").write_text("TOKEN=secret\n")
    return folder


def shown(on_nodes: CommandLine, folder: Path, *words: str, code: int = 0) -> str:
    done = subprocess.run(
        [*on_nodes.tool.command, "run", *words],
        env=on_nodes.environment(None),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_module_a_command_and_a_manifest_run_in_a_copy_of_the_folder(on_nodes: CommandLine, project: Path) -> None:
    module = shown(on_nodes, project, "-m", "pkg.train", "--image", IMAGE, "--workers", "2", "--name", "by-module")
    for worker in ("worker-0", "worker-1"):
        assert f"{worker} | {SEEN} 3\n" in module
        assert on_nodes("logs", "by-module", worker) == f"{SEEN} 3\n"
    assert "sending 3 files" in module
    assert "left out .env" in module
    (project / "pkg" / "model.py").write_text("LAYERS = 4\n")  # an edit needs no build
    command = ("--image", IMAGE, "--name", "by-command", "--", "python", "-m", "pkg.train", "--epochs", "3")
    assert f"| {SEEN} 4 --epochs 3\n" in shown(on_nodes, project, *command)
    container = {"name": "tensorflow", "image": IMAGE, "command": ["python", "-m", "pkg.train"]}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "by-manifest"},
        "spec": {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [container]}}}}},
    }
    (project / "job.yaml").write_text(yaml.safe_dump(job))
    assert "/opt/tfjob/project job.yaml pkg/__init__.py" in shown(on_nodes, project.parent, "project/job.yaml")


def test_a_replica_that_restarts_starts_with_the_same_files(
    on_nodes: CommandLine, project: Path, node_cluster: Client, nodes_namespace: str
) -> None:
    words = ("run", "-m", "pkg.train", "--image", IMAGE, "--name", "again", "--plain", "--", "--wait")
    lines: list[str] = []

    def pod() -> dict[str, object]:
        found: dict[str, object] = yaml.safe_load(
            node_cluster.kubectl("get", "pod", "again-worker-0", "-n", nodes_namespace, "-o", "yaml")
        )
        return found

    with ending(start(on_nodes, *words, cwd=project)) as process:
        assert process.stdout is not None
        while not any(SEEN in line for line in lines):
            lines.append(process.stdout.readline())
        os.kill(main_process(pod()), signal.SIGKILL)
        while sum(SEEN in line for line in lines) < 2:
            lines.append(process.stdout.readline())
        # The program may end, and with it its container, before this command does.
        on_nodes.run("exec", "again", "worker-0", "--", "python", "-c", "open('/tmp/go', 'w')")
        assert process.wait(120) == 0
    first, second = (line for line in lines if SEEN in line)
    assert first == second


def test_an_image_without_python_fails_with_the_reason(on_nodes: CommandLine, project: Path) -> None:
    told = shown(on_nodes, project, "-m", "pkg.train", "--image", BUSYBOX, "--name", "bare", code=1)
    assert "no Python" in told
    assert "--in-image" in told
