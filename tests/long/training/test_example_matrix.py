"""The long form: every example at every level, one of them by a user without any rights; with `--scale 1` all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.installed import Installed
from support.long_form import whole
from support.training.examples import accuracy, run_to_the_end

pytestmark = [pytest.mark.long, pytest.mark.tensorflow, pytest.mark.timeout(300)]

SETTINGS = [("full", "me"), ("full", "user"), ("addresses", "me"), ("ports", "me")]
TRAININGS = [
    *(f"{name}/tfjob.yaml" for name in ("mnist", "mnist-ps", "between-graph", "single", "retrain")),
    "tf_job.yaml",
]
OF_A_USER = "mnist-ps/tfjob.yaml"
"""The one that is always trained by a user without any rights too; CI does that with mnist."""
OTHERS = ["volumes/tfjob.yaml", "secrets/tfjob.yaml", "batch/job.yaml"]


class Setting:
    """A level and a user; `home` is a fresh state folder."""

    def __init__(self, tool: Installed, home: Path, examples: Path, *options: str) -> None:
        self.tool = tool
        self.home = home
        self.examples = examples
        self.options = options

    def run(self, name: str) -> list[str]:
        """Runs an example, which must succeed, and returns what it printed."""
        return run_to_the_end(self.tool, self.home, self.examples / name, *self.options)


@pytest.fixture
def setting(
    level: str,
    who: str,
    request: pytest.FixtureRequest,
    everyones_examples: Path,
    everyones_tensorflow: Path,
    tmp_path: Path,
) -> Setting:
    if who == "user" and os.geteuid() != 0:
        pytest.skip("needs root")
    tool: Installed = request.getfixturevalue("user_tool" if who == "user" else "tool")
    options = ["--level", level, *(["--python", str(everyones_tensorflow)] if who == "user" else [])]
    return Setting(tool, tool.make_folder(tmp_path / "home"), everyones_examples, *options)


@pytest.mark.parametrize(
    ("level", "who", "file"),
    [
        (whole if who == "user" and file != OF_A_USER else pytest.param)(level, who, file)
        for level, who in SETTINGS
        for file in TRAININGS
    ],
)
def test_a_training_comes_to_its_end_at_each_level(setting: Setting, file: str) -> None:
    lines = setting.run(file)
    name = file.partition("/")[0]
    if name.startswith("mnist"):
        assert accuracy(lines) >= 0.95
        claim = setting.home / "claims" / "default" / f"{name}-data"
        assert (claim / "output" / "model" / "1" / "saved_model.pb").exists()
    elif name == "retrain":
        assert (setting.home / "claims" / "default" / "tf-files" / "retrain" / "labels.txt").exists()
    elif name in ("between-graph", "tf_job.yaml"):
        assert accuracy(lines) >= 0.85


@pytest.mark.parametrize("file", OTHERS)
@pytest.mark.parametrize(("level", "who"), SETTINGS)
def test_an_example_without_tensorflow_succeeds_at_each_level(setting: Setting, file: str) -> None:
    setting.run(file)


@pytest.mark.parametrize(("level", "who"), SETTINGS)
def test_the_failing_example_has_the_same_verdict_at_each_level(setting: Setting) -> None:
    manifest = str(setting.examples / "failing" / "tfjob.yaml")
    assert setting.tool.tfjob(setting.home, "run", manifest, *setting.options).returncode == 1
    failure = json.loads(setting.tool.tfjob(setting.home, "status", "@latest", "-o", "json").stdout)["failure"]
    assert (failure["replica"], failure["exitCode"]) == ("worker-0", 1)
    assert failure["lastLines"][-1].startswith("ValueError: learning_rate must be a number")


def test_every_example_is_in_the_matrix(everyones_examples: Path) -> None:
    """Those with an Estimator have another TensorFlow, and a test of their own."""
    there = {str(path.relative_to(everyones_examples)) for path in everyones_examples.rglob("*.yaml")}
    assert there == {*TRAININGS, *OTHERS, "failing/tfjob.yaml", "estimator/tfjob.yaml", "estimator/chief.yaml"}
