"""The long form: the example with an Estimator, in the virtualenv that its README makes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.docs.guide import copy_of_examples
from support.installed import Installed
from support.training.examples import accuracy, run_to_the_end

pytestmark = [pytest.mark.long, pytest.mark.tensorflow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the examples with TensorFlow 2.15 for this one: a download of 250 MB."""
    if sys.version_info >= (3, 12):
        pytest.skip("TensorFlow 2.15 is for Python up to 3.11")
    folder = copy_of_examples(tmp_path_factory.mktemp("estimator"))
    venv = folder / "estimator" / ".venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    subprocess.run([venv / "bin" / "pip", "install", "--quiet", "tensorflow-cpu==2.15.1"], check=True)
    return folder


@pytest.mark.parametrize("manifest", ["tfjob.yaml", "chief.yaml"])
def test_an_estimator_trains_and_exports_its_model(
    tool: Installed, examples: Path, tmp_path: Path, manifest: str
) -> None:
    """As master, worker and parameter server; as chief, worker, parameter server and evaluator."""
    lines = run_to_the_end(tool, tmp_path, examples / "estimator" / manifest)
    assert accuracy(lines) >= 0.85
    assert list(tmp_path.glob("claims/default/*/checkpoints/export/final/*/saved_model.pb"))
