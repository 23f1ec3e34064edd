"""The operator's image: made here, complete by itself, and run as the Deployment on a real node."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.client import Client, KubectlFailed
from devcluster.images import BUSYBOX
from support.installed import Installed, open_parents
from support.running import wait_until
from support.served import served
from tfjob import __version__
from tfjob.operator.install.manifests import USER_ID
from tfjob.operator.options import NAME, NAMESPACE

pytestmark = [pytest.mark.node, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[3]
IMAGE = f"localhost/tf-job-operator:{__version__}"
MODULES = (
    "tfjob.operator.webhook.server, tfjob.operator.process.metrics, tfjob.kube.cluster.cluster, "
    "tfjob.operator.install.installation, yaml"
)


@pytest.fixture(scope="module")
def blobs(released: Path) -> dict[str, bytes]:
    """The files of the archive."""
    with tarfile.open(released / f"tf-job-operator-image-{__version__}.tar") as archive:
        return {name: content.read() for name in archive.getnames() if (content := archive.extractfile(name))}


@pytest.fixture(scope="module")
def root(blobs: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root file system of a container."""
    folder = tmp_path_factory.mktemp("image") / "rootfs"
    (layer,) = image_manifest(blobs)["layers"]
    with tarfile.open(fileobj=io.BytesIO(blob(blobs, layer))) as tar:
        tar.extractall(folder, filter="tar")
    open_parents(folder)
    return folder


def blob(blobs: dict[str, bytes], described: dict[str, Any]) -> Any:
    content = blobs[f"blobs/sha256/{described['digest'].partition(':')[2]}"]
    assert len(content) == described["size"]
    return json.loads(content) if described["mediaType"].endswith("json") else content


@pytest.mark.root
def test_the_operator_starts_with_nothing_but_the_image_as_the_user_of_the_image(
    root: Path, blobs: dict[str, bytes]
) -> None:
    config = image_config(blobs)
    environ = dict(line.split("=", 1) for line in config["Env"])

    chroot = ["/usr/sbin/chroot", f"--userspec={config['User']}", "--groups=", str(root)]

    def run(*words: str) -> str:
        command = [*chroot, config["Entrypoint"][0], *words]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout

    assert run("-m", "tfjob", "--version") == f"tfjob {__version__}\n"
    assert run("-c", f"import {MODULES}, tfjob.operator.webhook.certificates as c; print(c.LIFETIME.days)") == "30\n"
    assert run("-c", "import ctypes; ctypes.CDLL('libgcc_s.so.1')") == "", "a thread that ends early would abort it"


def test_the_archive_is_an_oci_layout_whose_digests_hold(blobs: dict[str, bytes]) -> None:
    assert json.loads(blobs["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    for name, content in blobs.items():
        if name.startswith("blobs/"):
            assert hashlib.sha256(content).hexdigest() == name.rpartition("/")[2]
    (entry,) = json.loads(blobs["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == IMAGE
    (layer,) = image_manifest(blobs)["layers"]
    assert blob(blobs, layer)


def test_the_dockerfile_gives_the_same_image(blobs: dict[str, bytes]) -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    said = dict(re.findall(r"^(ENV|WORKDIR|USER|ENTRYPOINT) (.*)$", text, re.MULTILINE))
    config = image_config(blobs)
    assert said["ENV"].split() == config["Env"]
    assert said["WORKDIR"] == config["WorkingDir"]
    assert said["USER"] == config["User"] == f"{USER_ID}:{USER_ID}"
    assert json.loads(said["ENTRYPOINT"]) == config["Entrypoint"]


def test_nothing_in_it_is_setuid_a_shell_or_a_path_of_the_build_machine(root: Path) -> None:
    for path in root.rglob("*"):
        assert not path.is_symlink(), path
        assert not path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID), path
    assert sorted(path.name for path in (root / "usr" / "local" / "bin").iterdir()) == ["python"]
    assert not any(root.rglob("*.pth"))
    assert not any(root.rglob("direct_url.json"))


def image_manifest(blobs: dict[str, bytes]) -> dict[str, Any]:
    (entry,) = json.loads(blobs["index.json"])["manifests"]
    manifest: dict[str, Any] = blob(blobs, entry)
    return manifest


def image_config(blobs: dict[str, bytes]) -> dict[str, Any]:
    config: dict[str, Any] = blob(blobs, image_manifest(blobs)["config"])["config"]
    return config


@pytest.fixture(scope="module")
def installed(image_node: Client, tool: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A cluster of one node on which the operator runs from the image."""
    there = Installed(tool.command, {"KUBECONFIG": str(image_node.kubeconfig)})
    home = tmp_path_factory.mktemp("home")
    words = ("operator", "install", "--image", IMAGE, "--replicas", "2", "--timeout", "90s")
    done = there.tfjob(home, *words, timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr + described(image_node)
    patient = '[{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 30}]'  # its failures are ignored
    image_node.kubectl("patch", "validatingwebhookconfiguration", NAME, "--type=json", "-p", patient)
    yield image_node
    done = there.tfjob(home, "operator", "uninstall", "--purge", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    wait_until(lambda: not served(image_node), 60)


def described(client: Client) -> str:
    return client.kubectl("describe", "pods", "-n", NAMESPACE) + client.kubectl(
        "logs", "-n", NAMESPACE, "-l", f"name={NAME}", "--tail=50"
    )


def job(name: str, **worker: Any) -> dict[str, Any]:
    container = {
        "name": "tensorflow",
        "image": BUSYBOX,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", "exit 0"],
    }
    spec = {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [container]}}, **worker}}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": metadata, "spec": spec}


@pytest.mark.root
def test_the_deployment_runs_a_job_to_its_end(installed: Client) -> None:
    installed.apply(job("hello", replicas=2))
    wait_until(
        lambda: installed.get("tfjob", "hello", "-n", "default").get("status", {}).get("state") == "Succeeded",
        150,
        lambda: described(installed),
    )


@pytest.mark.root
def test_both_replicas_of_the_operator_judge_jobs_through_their_service(installed: Client) -> None:
    """Asked often enough that each of them answers; whoever is not trusted would let the job pass."""
    bundle = installed.get("validatingwebhookconfiguration", NAME)["webhooks"][0]["clientConfig"]["caBundle"]
    assert base64.b64decode(bundle).count(b"BEGIN CERTIFICATE") >= 2  # one that started again has a new one
    for _ in range(6):
        with pytest.raises(KubectlFailed, match=r"spec\.tfReplicaSpecs\.Worker\.restartPolicy"):
            installed.apply(job("bad", restartPolicy="Sometimes"))


@pytest.mark.root
def test_the_pod_is_nobody_on_a_disk_that_it_cannot_write(installed: Client) -> None:
    pod = installed.get("pods", "-n", NAMESPACE, "-l", f"name={NAME}")["items"][0]
    name = pod["metadata"]["name"]
    program = "import os; print(os.getuid()); open('/tmp/file', 'w')"
    with pytest.raises(KubectlFailed, match="Read-only file system"):
        installed.kubectl("exec", "-n", NAMESPACE, name, "--", "/usr/local/bin/python", "-c", program)
