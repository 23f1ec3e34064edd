"""Build all files of a release, all of one version, into one folder.

    uv run python tools/release.py --output dist/release --registry registry.example/team

    tf-job-operator-chart-VERSION.tgz   the chart, with the image below as its default; -latest.tgz is a copy
    tf-serving-chart-VERSION.tgz        the chart of model servers, with the image of TensorFlow Serving as its default
    index.yaml                          makes the folder a chart repository; it keeps the versions that it lists
    tfjob-VERSION-py3-none-any.whl      the command
    tf-job-operator-image-VERSION.tar   REGISTRY/tf-job-operator:VERSION, an OCI archive
    tf-job-tensorboard-image-VERSION.tar
    tf-job-serving-image-VERSION.tar    the model server of tfjob
    tf-job-sample-image-VERSION.tar     TensorFlow and the examples, which `helm test` trains with
    SHA256SUMS                          checksums of all files

The same sources, interpreter and packages give the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import chart
import image
import yaml

from devcluster import images
from tfjob import __version__

PROJECT = Path(__file__).parent.parent
NAME = "tf-job-operator"
IMAGES = {
    "operator": image.OPERATOR,
    "tensorboard": image.TENSORBOARD,
    "serving": image.SERVING,
    "sample": image.SAMPLE,
}
SUMS = "SHA256SUMS"
EPOCH = "315532800"
"""1980, the earliest time that entries of a wheel can have."""


def main(arguments: list[str] | None = None) -> int:
    """Write the folder; return 1 if the sources are not of one version."""
    parser = argparse.ArgumentParser(description="Build a release from the sources in this folder.")
    parser.add_argument(
        "--output", type=Path, default=PROJECT / "dist" / "release", help="folder to write into (default: %(default)s)"
    )
    parser.add_argument(
        "--registry", default="localhost", help="registry that the images will be pushed to (default: %(default)s)"
    )
    parser.add_argument(
        "--images", nargs="*", choices=list(IMAGES), default=list(IMAGES), help="images to build (default: all)"
    )
    parser.add_argument("--base", type=Path, metavar="ROOTFS", help="output of `image.py --interpreter`, to save time")
    options = parser.parse_args(arguments)
    if faults := problems():
        print("\n".join(faults), file=sys.stderr)
        return 1
    folder: Path = options.output
    folder.mkdir(parents=True, exist_ok=True)
    write_charts(folder, f"{options.registry}/{NAME}:{__version__}")
    write_wheel(folder)
    for name in options.images:
        contents = IMAGES[name]
        archive = folder / f"{contents.name}-image-{__version__}.tar"
        write_image(archive, f"{options.registry}/{contents.name}:{__version__}", contents, options.base)
    write_sums(folder)
    print((folder / SUMS).read_text(), end="")
    return 0


def problems() -> list[str]:
    """Return why the sources cannot be released: two versions, or a chart that is out of date."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    found = [] if project == __version__ else [f"pyproject.toml is {project}, tfjob.__version__ is {__version__}"]
    return found + [f"charts/{name} is out of date; run tools/chart.py" for name in chart.stale()]


def write_charts(folder: Path, image_name: str) -> None:
    """Write the charts, a copy of the operator's, and the index."""
    index = folder / "index.yaml"
    entries = yaml.safe_load(index.read_text())["entries"] if index.exists() else {}
    for source, edited in ((chart.CHART, image_name), (chart.SERVING, "")):
        archive = folder / f"{source.name}-chart-{__version__}.tgz"
        archive.write_bytes(packed_chart(source, edited))
        about: dict[str, Any] = yaml.safe_load((source / "Chart.yaml").read_text())
        entry = {**about, "urls": [archive.name], "digest": hashlib.sha256(archive.read_bytes()).hexdigest()}
        others = [one for one in entries.get(source.name, ()) if one["version"] != __version__]
        entries[source.name] = [entry, *others]
    shutil.copyfile(folder / f"{NAME}-chart-{__version__}.tgz", folder / f"{NAME}-chart-latest.tgz")
    index.write_text(yaml.safe_dump({"apiVersion": "v1", "entries": entries}, sort_keys=False))


def packed_chart(source: Path, image_name: str = "") -> bytes:
    """Return a chart as helm packs it, with a default image if one is given."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(path for path in source.rglob("*") if path.is_file()):
            content = path.read_bytes()
            if image_name and path == source / "values.yaml":
                content = with_image(content.decode(), image_name).encode()
            entry = tarfile.TarInfo(f"{source.name}/{path.relative_to(source)}")
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)


def with_image(values: str, image_name: str) -> str:
    """Return the values of the chart with a default image."""
    text, count = re.subn(r'^image: ""$', f"image: {image_name}", values, flags=re.MULTILINE)
    assert count == 1, "values.yaml has no empty image"
    return text


def write_wheel(folder: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder.absolute())]
    environ = {**os.environ, "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", EPOCH)}
    done = subprocess.run(command, cwd=PROJECT, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"cannot build the wheel: {done.stderr.strip()}")


def write_image(archive: Path, name: str, contents: image.Contents, base: Path | None) -> None:
    """Write an image as an OCI archive."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "rootfs"
        image.root_file_system(root, contents, base)
        images.write_layer(archive, name, images.layer_of(root), contents.config)


def write_sums(folder: Path) -> None:
    """Write the file for `sha256sum --check`."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != SUMS)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / SUMS).write_text("".join(lines))


if __name__ == "__main__":
    sys.exit(main())
