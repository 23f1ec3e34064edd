"""The chart on a real node: the guide to it, and a release that is installed from its archive and upgraded."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import standin_tensorflow
from devcluster.client import Client
from docs.guide import play
from helm_line import RELEASE, Helm
from releasing import NEXT, next_version, release_with_operator
from running import wait_until
from served import served
from tfjob import __version__
from tfjob.api.crd import NAME as CRD_NAME
from tfjob.api.crd import RELEASE as CRD_RELEASE
from tfjob.api.tf_job_crd import NAME as TF_JOB_CRD_NAME
from tfjob.operator.names import NAME

pytestmark = [pytest.mark.node, pytest.mark.root, pytest.mark.timeout(400)]

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "helm.md"


@pytest.fixture
def cluster(image_node: Client, helm: Helm) -> Iterator[Client]:
    """Without an operator and TFJobs afterwards."""
    yield image_node
    dataclasses.replace(helm, client=image_node).run("uninstall", RELEASE, "--ignore-not-found", "--wait")
    image_node.kubectl("delete", "crd", CRD_NAME, TF_JOB_CRD_NAME, "--ignore-not-found")
    image_node.kubectl("delete", "pod", "-l", "app.kubernetes.io/component=test")
    wait_until(lambda: not served(image_node), 60)


def test_every_command_of_the_guide_to_helm_prints_what_it_says(
    cluster: Client, helm: Helm, released: Path, tmp_path: Path
) -> None:
    here = dataclasses.replace(helm, client=cluster)
    folders = {name: value for name, value in here.environment().items() if name.startswith("HELM_")}
    programs = f"{Path(sys.executable).parent}:{helm.program.parent}:{cluster.programs}:/usr/bin:/bin"
    env = {"KUBECONFIG": str(cluster.kubeconfig), "PATH": programs, **folders}
    project = tmp_path / "project"
    (project / "dist").mkdir(parents=True)
    (project / "dist" / "release").symlink_to(released)
    for command, printed in play(GUIDE, tmp_path, project, env=env, patience=180):
        assert command.matches(printed), f"{GUIDE.name}:{command.line}: $ {command.command}\n{printed}"


def test_a_release_is_installed_from_its_archive_and_upgraded_to_the_next_from_the_repository(
    cluster: Client, helm: Helm, released: Path, tmp_path: Path
) -> None:
    """Chart, CRD and operator change together, and the operator of the next version passes its test.

    That test has an image that trains, as far as a stand-in does, and so the default parameter server.
    """
    here = dataclasses.replace(helm, client=cluster)
    here.run("install", RELEASE, str(released / f"tf-job-operator-chart-{__version__}.tgz"), "--wait")
    assert versions(cluster) == {__version__}

    release_with_operator(released, next_version(tmp_path / "next"))
    cluster.load_image(released / f"tf-job-operator-image-{NEXT}.tar")
    standin_tensorflow.write(tmp_path / "standin.tar")
    cluster.load_image(tmp_path / "standin.tar")
    values = {
        "test_image": standin_tensorflow.IMAGE,
        "tfImage": standin_tensorflow.IMAGE,
        "tensorboardImage": f"localhost/tf-job-tensorboard:{__version__}",
    }
    chosen = [f"--set={name}={value}" for name, value in values.items()]
    with served_at(released) as address:
        here.run("upgrade", RELEASE, "tf-job-operator", f"--repo={address}", "--wait", *chosen)
    wait_until(lambda: versions(cluster) == {NEXT}, 30, lambda: str(versions(cluster)))
    assert "PASSED" in here.run("test", RELEASE, "--logs").splitlines()


def versions(client: Client) -> set[str]:
    """What the CRD and each pod of the operator say that they are."""
    pods = client.get("pods", "-l", f"name={NAME}")["items"]
    said = {
        client.kubectl("exec", one["metadata"]["name"], "--", "/usr/local/bin/python", "-m", "tfjob", "--version")
        for one in pods
        if "deletionTimestamp" not in one["metadata"]
    }
    release_of_crd: str = client.get("crd", CRD_NAME)["metadata"]["annotations"][CRD_RELEASE]
    return {one.split()[1] for one in said} | {release_of_crd}


@contextmanager
def served_at(folder: Path) -> Iterator[str]:
    """A folder as a web server shows it; its address."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
