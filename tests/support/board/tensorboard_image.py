"""The image of TensorBoard as tools/image.py makes it, made once for each state of what it holds."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from devcluster.cache import built
from devcluster.images import config_of

ROOT = Path(__file__).parents[3]
SOURCES = [ROOT / "tools" / "image.py", ROOT / "tools" / "tensorboard_program.py", ROOT / "uv.lock"]


def image() -> Path:
    """The folder with the archive `tf-job-tensorboard.tar` and the root file system `rootfs`."""
    sources = b"".join(path.read_bytes() for path in SOURCES)
    key = hashlib.sha256(sources + sys.version.encode()).hexdigest()[:8]
    return built(f"tensorboard-{key}", _make)


def variables() -> dict[str, str]:
    """What the image sets in the environment of its program."""
    return dict(line.split("=", 1) for line in config_of(image() / "tf-job-tensorboard.tar")["Env"])


def _make(place: Path) -> None:
    command = [sys.executable, str(SOURCES[0]), "--tensorboard", "--output", str(place)]
    subprocess.run(command, check=True)
