"""The image `standin:1` of the cases: this interpreter, and standin.py in its working folder.

A registry would be the usual way to the nodes; here the image is made on this machine and imported into each of them.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from devcluster import images, nodes
from devcluster.cache import built
from devcluster.client import Client
from devcluster.state import Folder

NAME = "docker.io/library/standin:1"
"""How containerd spells `standin:1`."""
STANDIN = Path(__file__).with_name("standin.py")
FOLDER = "work"
IMAGE_TOOL = Path(__file__).parents[3] / "tools" / "image.py"


def load(client: Client, scratch: Path) -> None:
    """Brings the image to every node of a cluster of ours."""
    archive = scratch / "standin.tar"
    write(archive)
    nodes.load_image(Folder(client.kubeconfig.parent.name), archive)
    archive.unlink()


def write(archive: Path) -> None:
    """Writes the image as an OCI archive."""
    root = interpreter()
    files = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    files[f"{FOLDER}/{STANDIN.name}"] = STANDIN
    images.write(archive, NAME, files, ["python"], folders=("tmp", FOLDER), working_folder=f"/{FOLDER}")


def interpreter() -> Path:
    """The root file system of an interpreter with its standard library, made once for each version of it."""
    key = hashlib.sha256(IMAGE_TOOL.read_bytes() + sys.version.encode()).hexdigest()[:8]
    return built(f"interpreter-{key}", _make) / "rootfs"


def _make(place: Path) -> None:
    subprocess.run([sys.executable, str(IMAGE_TOOL), "--interpreter", "--output", str(place)], check=True)
