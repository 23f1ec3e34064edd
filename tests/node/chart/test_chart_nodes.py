"""The chart on a real node: its guide, an installation from its archive, an upgrade, and its test."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from devcluster.client import Client, KubectlFailed
from support.docs.guide import play
from support.helm_line import RELEASE, Helm
from support.releasing import NEXT, next_version, release, release_with_operator
from support.running import wait_until
from support.served import served
from tfjob import __version__
from tfjob.api.crd.older import TF_JOB_CRD_NAME as TF_JOB_CRD_NAME
from tfjob.api.crd.tfjob import NAME as CRD_NAME
from tfjob.api.crd.tfjob import RELEASE as CRD_RELEASE
from tfjob.operator.options import NAME

pytestmark = [pytest.mark.long, pytest.mark.node, pytest.mark.root, pytest.mark.timeout(400)]

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "helm.md"


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
    with play(GUIDE, tmp_path, project, env=env) as printed:
        assert list(printed)


def test_a_release_is_installed_from_its_archive_and_upgraded_to_the_next_from_the_repository(
    cluster: Client, helm: Helm, released: Path, tmp_path: Path
) -> None:
    """Chart, CRD and operator change together, and the operator of the next version passes its test.

    That test does without a training: its job has no image but the operator's own.
    """
    here = dataclasses.replace(helm, client=cluster)
    here.run("install", RELEASE, str(released / f"tf-job-operator-chart-{__version__}.tgz"), "--wait")
    wait_until(lambda: versions(cluster) == {__version__}, 90, lambda: str(versions(cluster)))

    release_with_operator(released, next_version(tmp_path / "next"))
    cluster.load_image(released / f"tf-job-operator-image-{NEXT}.tar")
    values = {"test.training": "false", "tensorboardImage": f"localhost/tf-job-tensorboard:{__version__}"}
    chosen = [f"--set={name}={value}" for name, value in values.items()]
    with served_at(released) as address:
        here.run("upgrade", RELEASE, "tf-job-operator", f"--repo={address}", "--wait", *chosen)
    wait_until(lambda: versions(cluster) == {NEXT}, 90, lambda: str(versions(cluster)))
    assert "PASSED" in here.run("test", RELEASE, "--logs").splitlines()


@pytest.mark.tensorflow
@pytest.mark.timeout(1500)
def test_a_whole_release_passes_its_test_with_tensorflow(cluster: Client, helm: Helm, tmp_path: Path) -> None:
    """As its user has it: nothing is said but the chart. The image with which it trains is also that of a first TfJob,
    whose only replica is a master."""
    folder, registry = tmp_path / "release", "localhost/whole"
    release(folder, "--registry", registry)
    for archive in sorted(folder.glob("*-image-*.tar")):
        cluster.load_image(archive)
    sample = f"{registry}/tf-job-sample:{__version__}"
    here = dataclasses.replace(helm, client=cluster)
    here.run("install", RELEASE, str(folder / f"tf-job-operator-chart-{__version__}.tgz"), "--wait")

    with ThreadPoolExecutor() as pool:
        test = pool.submit(here.run, "test", RELEASE, "--logs", "--timeout=720s", timeout=800)
        wait_until(lambda: test.done() or runs(cluster, "MASTER"), 300)
        log = cluster.kubectl("logs", "-f", "-l", "job_type=MASTER", timeout=300)
        images = {one["metadata"]["labels"]["job_type"]: one["spec"]["containers"][0]["image"] for one in pods(cluster)}
        said = test.result().rstrip().splitlines()
    assert log.startswith("REPLICA_TYPE=master,REPLICA_INDEX=0\n")
    assert float(log.split()[-1]) > 0.8, log
    assert images == dict.fromkeys(("MASTER", "WORKER", "PS"), sample)
    assert said[-1] == "PASSED"

    container = {"name": "tensorflow", "image": sample}
    master = {"tfReplicaType": "MASTER", "template": {"spec": {"containers": [container]}}}
    about = {"apiVersion": "tensorflow.org/v1alpha1", "kind": "TfJob", "metadata": {"name": "first"}}
    cluster.apply({**about, "spec": {"replicaSpecs": [master]}})
    cluster.kubectl("wait", "tfja/first", "--for=jsonpath={.status.phase}=Done", "--timeout=200s", timeout=220)
    assert "Final test accuracy = " in cluster.kubectl("logs", "-l", "tf_job_name=first")


def test_an_image_that_no_node_can_pull_is_named_by_the_test(cluster: Client, helm: Helm, released: Path) -> None:
    here, image = dataclasses.replace(helm, client=cluster), "registry.invalid/nothing:1"
    chart = str(released / f"tf-job-operator-chart-{__version__}.tgz")
    here.run("install", RELEASE, chart, "--wait", f"--set=test_image={image}")
    said = here.run("test", RELEASE, "--logs", code=1, timeout=300)
    assert any("error: " in line and image in line for line in said.splitlines())
    assert "PASSED" not in said


def pods(client: Client) -> list[dict[str, Any]]:
    """The replicas of TfJobs."""
    found: list[dict[str, Any]] = client.get("pods", "-l", "job_type")["items"]
    return found


def runs(client: Client, job_type: str) -> bool:
    return any(
        one["metadata"]["labels"]["job_type"] == job_type and one["status"].get("phase") == "Running"
        for one in pods(client)
    )


def versions(client: Client) -> set[str]:
    """What the CRD and each pod of the operator say that they are; nothing while a pod comes or goes."""
    pods = client.get("pods", "-l", f"name={NAME}")["items"]
    try:
        said = {
            client.kubectl("exec", one["metadata"]["name"], "--", "/usr/local/bin/python", "-m", "tfjob", "--version")
            for one in pods
            if "deletionTimestamp" not in one["metadata"]
        }
    except KubectlFailed:
        return set()
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
