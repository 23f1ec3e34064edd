"""The release command: everything of one version, the same bytes each time, and a repository that helm can read."""

from __future__ import annotations

import hashlib
import itertools
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from support.releasing import NEXT, next_version, release
from tfjob import __version__
from tfjob.serve.deploy import IMAGES

REGISTRY = "registry.example/team"
SERVING_CHART = f"tf-serving-chart-{__version__}.tgz"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of these sources; the image, which takes its time, is made and looked at in tests/node/operator."""
    folder = tmp_path_factory.mktemp("made")
    release(folder, "--registry", REGISTRY, "--images")
    return folder


def chart_files(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as tar:
        return {name: content.read().decode() for name in tar.getnames() if (content := tar.extractfile(name))}


def test_all_parts_are_of_one_version_and_their_sums_hold(made: Path) -> None:
    names = {path.name for path in made.iterdir()}
    chart, wheel = f"tf-job-operator-chart-{__version__}.tgz", f"tfjob-{__version__}-py3-none-any.whl"
    charts = {chart, "tf-job-operator-chart-latest.tgz", SERVING_CHART}
    assert names == {*charts, "index.yaml", wheel, "SHA256SUMS"}
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=made, check=True, capture_output=True)
    assert (made / chart).read_bytes() == (made / "tf-job-operator-chart-latest.tgz").read_bytes()
    about = yaml.safe_load(chart_files(made / chart)["tf-job-operator/Chart.yaml"])
    assert about["version"] == about["appVersion"] == __version__
    assert yaml.safe_load(chart_files(made / SERVING_CHART)["tf-serving/Chart.yaml"])["version"] == __version__
    with zipfile.ZipFile(made / wheel) as archive:
        assert f'"{__version__}"' in archive.read("tfjob/__init__.py").decode()


def test_the_chart_names_the_image_of_its_own_release(made: Path) -> None:
    values = chart_files(made / f"tf-job-operator-chart-{__version__}.tgz")["tf-job-operator/values.yaml"]
    assert yaml.safe_load(values)["image"] == f"{REGISTRY}/tf-job-operator:{__version__}"


def test_the_chart_of_model_servers_keeps_its_image(made: Path) -> None:
    values = chart_files(made / SERVING_CHART)["tf-serving/values.yaml"]
    assert yaml.safe_load(values)["image"] == IMAGES["tensorflow"]


def test_the_same_sources_give_the_same_bytes(made: Path, tmp_path: Path) -> None:
    release(tmp_path, "--registry", REGISTRY, "--images")
    assert (tmp_path / "SHA256SUMS").read_text() == (made / "SHA256SUMS").read_text()


def test_the_index_lists_every_version_of_the_folder_the_newest_first(tmp_path: Path) -> None:
    folder = tmp_path / "release"
    release(folder, "--images")
    release(folder, "--images", sources=next_version(tmp_path / "next"))
    index = yaml.safe_load((folder / "index.yaml").read_text())["entries"]
    assert list(index) == ["tf-job-operator", "tf-serving"]
    for entries in index.values():
        assert [entry["version"] for entry in entries] == [NEXT, __version__]
    for entry in itertools.chain(*index.values()):
        content = (folder / entry["urls"][0]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["digest"]


def test_sources_of_two_versions_are_refused(tmp_path: Path) -> None:
    sources = next_version(tmp_path / "next")
    project = sources / "pyproject.toml"
    project.write_text(project.read_text().replace(f'version = "{NEXT}"', f'version = "{__version__}"'))
    with pytest.raises(AssertionError, match=f"pyproject.toml is {__version__}, tfjob.__version__ is {NEXT}"):
        release(tmp_path / "release", "--images", sources=sources)
