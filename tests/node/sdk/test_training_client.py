"""The public client of training-operator v1.9, as it is, with this operator."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.cache import built
from devcluster.client import Client
from devcluster.images import BUSYBOX
from support.operating import operating
from support.served import serve_every_job

pytestmark = [pytest.mark.root, pytest.mark.timeout(400)]

SCRIPT = Path(__file__).with_name("training_script.py")
REQUIREMENTS = ("kubeflow-training==1.9.0", "kubernetes<36")
"""The client sets no upper bound for the library that it stands on, and is older than its version 36."""


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter of a virtualenv with the client, made once for all runs."""

    def make(folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *REQUIREMENTS], check=True)

    version = ".".join(map(str, sys.version_info[:2]))
    return built(f"training-client-1.9.0-python{version}", make) / "bin" / "python"


@pytest.fixture(scope="module")
def found(python: Path, node_cluster: Client) -> Iterator[Any]:
    """What the client got."""
    serve_every_job(node_cluster)
    namespace = node_cluster.namespace()
    try:
        with operating(node_cluster.kubeconfig, f"--namespace={namespace}"):
            done = subprocess.run(
                [str(python), str(SCRIPT), str(node_cluster.kubeconfig), namespace, BUSYBOX],
                capture_output=True,
                text=True,
                timeout=300,
            )
        assert done.returncode == 0, done.stdout + done.stderr
        yield json.loads(done.stdout.splitlines()[-1])
    finally:
        node_cluster.delete_namespace(namespace)


def test_a_job_is_created_and_waited_for(found: Any) -> None:
    """With the conditions that v1.9's own end-to-end test asks for."""
    waited = found["finished"]["waited"]
    assert waited["Created"] == waited["Succeeded"] == "True"
    assert "True" not in {waited.get(kind) for kind in ("Running", "Restarting", "Failed")}
    assert found["finished"]["is"] == {
        "created": True,
        "running": False,
        "restarting": False,
        "succeeded": True,
        "failed": False,
    }
    assert found["finished"]["workers"] == 1


def test_its_pods_logs_and_events_are_found_by_their_labels(found: Any) -> None:
    """The logs are by default those of the pod that is the master."""
    finished = found["finished"]
    assert finished["pods"] == finished["master"] == finished["first worker"] == ["sdk-worker-0"]
    assert finished["logs"] == {"sdk-worker-0": "trained\n"}
    assert finished["events of"] == ["pod/sdk-worker-0", "tfjob/sdk"]


def test_jobs_are_listed_and_deleted(found: Any) -> None:
    assert found["finished"]["listed"] == ["sdk"]
    assert found["finished"]["left"] == []


def test_a_patch_lets_a_suspended_job_run(found: Any) -> None:
    resumed = found["resumed"]
    assert resumed == {"before": [], "after": ["patched-worker-0"], "logs": {"patched-worker-0": "resumed\n"}}


def test_who_waits_for_the_success_of_a_failing_job_learns_of_its_end(found: Any) -> None:
    assert "is Failed" in found["failed"]["error"]
    assert "worker-0" in found["failed"]["error"]
    assert found["failed"]["is"]["failed"]
