"""The first example as a user without any rights: namespaces, addresses and volumes without root."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from installed import SYSTEM_PYTHON, Installed, open_to_everyone

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def virtualenv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TensorFlow where everybody can read it, for the system's interpreter."""
    folder = tmp_path_factory.mktemp("tensorflow")
    subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    packages = folder / "packages"
    # Links instead of copies where the file system allows it: it is more than a gigabyte.
    if subprocess.run(["cp", "-rl", sysconfig.get_path("purelib"), str(packages)], check=False).returncode:
        shutil.copytree(sysconfig.get_path("purelib"), packages, dirs_exist_ok=True)
    (paths,) = (folder / "venv").glob("lib/python3.*/site-packages")
    (paths / "packages.pth").write_text(f"{packages}\n")
    open_to_everyone(folder)
    return folder / "venv"


@pytest.mark.root
@pytest.mark.tensorflow
@pytest.mark.timeout(240)
def test_mnist_trains_for_an_ordinary_user(user_tool: Installed, virtualenv: Path, tmp_path: Path) -> None:
    """Full level, own addresses and a claim at /output, as an id that no account has."""
    examples = tmp_path / "mnist"
    shutil.copytree(EXAMPLES / "mnist", examples)
    open_to_everyone(examples)
    home = user_tool.make_folder(tmp_path / "home")
    done = user_tool.tfjob(
        home, "run", str(examples / "tfjob.yaml"), "--level", "full", "--python", str(virtualenv), timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test accuracy 0.9" in done.stdout
    assert (home / "claims" / "default" / "mnist-output" / "model" / "1" / "saved_model.pb").exists()
