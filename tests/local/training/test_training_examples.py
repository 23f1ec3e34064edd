"""The examples, to their end, with real TensorFlow: what a newcomer sees first must work as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.installed import Installed
from support.running import status
from support.training.examples import EXAMPLES, accuracy, run_example, run_to_the_end
from tfjob.local.warm.policy import TURNED_OFF
from tfjob.serve import engine
from tfjob.serve.exports import export_at, read
from tfjob.serve.images import read_mnist

pytestmark = pytest.mark.timeout(240)


@pytest.mark.tensorflow
def test_mnist_trains_as_collectives(tool: Installed, tmp_path: Path) -> None:
    """Chief, worker and evaluator reach 95 % together; they leave summaries, checkpoints and a model for servers.

    Each of them ends by itself, or as it is asked to when the chief has ended, and none has to be killed.
    """
    lines = run_example(tool, tmp_path, "mnist")
    assert accuracy(lines) >= 0.95
    replicas: list[dict[str, Any]] = status(tool, tmp_path, "mnist")["replicas"]  # type: ignore[assignment]
    assert {one["name"] for one in replicas} == {"chief-0", "worker-0", "evaluator-0"}
    assert {one["exitCode"] for one in replicas} <= {0, 143}, replicas
    assert any(line.startswith("evaluator-0") and "step 600/600" in line for line in lines), "it tests the last step"
    assert [one["start"] for one in replicas if one["name"] == "chief-0"] == ["warm"]  # the others' pods may be gone
    data = tmp_path / "claims" / "default" / "mnist-data"
    assert list(data.glob("checkpoints/*.index"))
    assert list(data.glob("output/logs/chief-0/events*"))
    assert list(data.glob("output/logs/evaluator/events*"))
    assert digits_right(data / "output" / "model" / "1") >= 0.95


@pytest.mark.long
@pytest.mark.tensorflow
def test_mnist_trains_with_cold_replicas(tool: Installed, tmp_path: Path) -> None:
    """The same with --cold: each replica imports TensorFlow by itself, and what they come to is the same."""
    lines = run_to_the_end(tool, tmp_path, EXAMPLES / "mnist" / "tfjob.yaml", "--cold")
    replicas: list[dict[str, Any]] = status(tool, tmp_path, "mnist")["replicas"]  # type: ignore[assignment]
    assert [one["start"] for one in replicas if one["name"] == "chief-0"] == [f"cold: {TURNED_OFF}"]
    assert accuracy(lines) >= 0.95
    assert digits_right(tmp_path / "claims" / "default" / "mnist-data" / "output" / "model" / "1") >= 0.95


@pytest.mark.parametrize(
    ("name", "file"), [("volumes", "tfjob.yaml"), ("secrets", "tfjob.yaml"), ("batch", "job.yaml")]
)
def test_examples_without_tensorflow_succeed(tool: Installed, tmp_path: Path, name: str, file: str) -> None:
    """They only show what the tool gives to a program."""
    run_example(tool, tmp_path, name, file)


def test_the_failing_example_shows_its_verdict(tool: Installed, tmp_path: Path) -> None:
    """The first failing replica, its code and its last line, on the screen and in the record."""
    done = tool.tfjob(tmp_path, "run", str(EXAMPLES / "failing" / "tfjob.yaml"))
    assert done.returncode == 1
    shown = json.loads(tool.tfjob(tmp_path, "status", "@latest", "-o", "json").stdout)
    failure = shown["failure"]
    assert failure["replica"] in done.stdout
    assert failure["lastLines"][-1] in done.stdout.splitlines()[-1]


def digits_right(model: Path) -> float:
    """How many of the test digits an exported model reads right in the serving engine."""
    assert (export_at(model).step or 0) > 0
    signature = read(model).signatures["serving_default"]
    images, labels = read_mnist(EXAMPLES / "mnist" / "data")
    loaded = engine.load(model)
    try:
        (digits,) = loaded.run({signature.inputs["images"].name: images}, [signature.outputs["digits"].name])
    finally:
        loaded.close()
    return float((digits == labels).mean())
