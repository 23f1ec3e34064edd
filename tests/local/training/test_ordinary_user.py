"""The first example as a user without any rights: namespaces, addresses and volumes without root."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.installed import Installed
from support.training.examples import accuracy, run_to_the_end


@pytest.mark.root
@pytest.mark.tensorflow
@pytest.mark.timeout(240)
def test_mnist_trains_for_an_ordinary_user(
    user_tool: Installed, everyones_tensorflow: Path, everyones_examples: Path, tmp_path: Path
) -> None:
    """Full level, own addresses and a claim at /tfjob-data, as an id that no account has.

    A third of the steps: how well the example learns in all of them is measured where root runs it.
    """
    home = user_tool.make_folder(tmp_path / "home")
    whole = (everyones_examples / "mnist" / "tfjob.yaml").read_text()
    assert '--steps, "600"' in whole
    manifest = everyones_examples / "mnist" / "brief.yaml"
    manifest.write_text(whole.replace('--steps, "600"', '--steps, "200"'))
    lines = run_to_the_end(user_tool, home, manifest, "--level", "full", "--python", str(everyones_tensorflow))
    assert accuracy(lines) >= 0.85
    assert (home / "claims" / "default" / "mnist-data" / "output" / "model" / "1" / "saved_model.pb").exists()
