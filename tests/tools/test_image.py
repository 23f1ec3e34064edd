"""The operator's image: made here, complete by itself, the same each time."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tfjob import __version__
from tfjob.operator.manifests import USER_ID

ROOT = Path(__file__).parents[2]
MODULES = "tfjob.operator.webhook, tfjob.operator.metrics, tfjob.kube.cluster, tfjob.operator.installation, yaml"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("image")
    command = [sys.executable, str(ROOT / "tools" / "image.py"), "--output", str(folder)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    return folder


@pytest.fixture(scope="module")
def blobs(built: Path) -> dict[str, bytes]:
    """The files of the archive."""
    with tarfile.open(built / "tf-job-operator.tar") as archive:
        return {name: content.read() for name in archive.getnames() if (content := archive.extractfile(name))}


def blob(blobs: dict[str, bytes], described: dict[str, Any]) -> Any:
    content = blobs[f"blobs/sha256/{described['digest'].partition(':')[2]}"]
    assert len(content) == described["size"]
    return json.loads(content) if described["mediaType"].endswith("json") else content


@pytest.mark.timeout(300)
@pytest.mark.root
def test_the_operator_starts_with_nothing_but_the_image_as_the_user_of_the_image(
    built: Path, blobs: dict[str, bytes]
) -> None:
    config = image_config(blobs)
    environ = dict(line.split("=", 1) for line in config["Env"])

    chroot = ["/usr/sbin/chroot", f"--userspec={config['User']}", "--groups=", str(built / "rootfs")]

    def run(*words: str) -> str:
        command = [*chroot, config["Entrypoint"][0], *words]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout

    assert run("-m", "tfjob", "--version") == f"tfjob {__version__}\n"
    assert run("-c", f"import {MODULES}, tfjob.operator.certificates as c; print(c.LIFETIME.days)") == "30\n"


@pytest.mark.timeout(300)
def test_the_archive_is_an_oci_layout_whose_digests_hold(blobs: dict[str, bytes]) -> None:
    assert json.loads(blobs["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    for name, content in blobs.items():
        if name.startswith("blobs/"):
            assert hashlib.sha256(content).hexdigest() == name.rpartition("/")[2]
    (entry,) = json.loads(blobs["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == f"localhost/tf-job-operator:{__version__}"
    manifest = blob(blobs, entry)
    (layer,) = manifest["layers"]
    assert blob(blobs, layer)


@pytest.mark.timeout(300)
def test_the_dockerfile_gives_the_same_image(blobs: dict[str, bytes]) -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    said = dict(re.findall(r"^(ENV|WORKDIR|USER|ENTRYPOINT) (.*)$", text, re.MULTILINE))
    config = image_config(blobs)
    assert said["ENV"].split() == config["Env"]
    assert said["WORKDIR"] == config["WorkingDir"]
    assert said["USER"] == config["User"] == f"{USER_ID}:{USER_ID}"
    assert json.loads(said["ENTRYPOINT"]) == config["Entrypoint"]


@pytest.mark.timeout(300)
def test_nothing_in_it_is_setuid_a_shell_or_a_path_of_the_build_machine(built: Path) -> None:
    root = built / "rootfs"
    for path in root.rglob("*"):
        assert not path.is_symlink(), path
        assert not path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID), path
    assert sorted(path.name for path in (root / "usr" / "local" / "bin").iterdir()) == ["python"]
    assert not any(root.rglob("*.pth"))
    assert not any(root.rglob("direct_url.json"))


def image_config(blobs: dict[str, bytes]) -> dict[str, Any]:
    (entry,) = json.loads(blobs["index.json"])["manifests"]
    config: dict[str, Any] = blob(blobs, blob(blobs, entry)["config"])["config"]
    return config
