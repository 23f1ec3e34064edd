"""The examples, to their end, with real TensorFlow: what a newcomer sees first must work as it is."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboard.compat.proto import event_pb2  # type: ignore[import-untyped]
from tensorboard.util import tensor_util  # type: ignore[import-untyped]

from installed import Installed
from training.examples import EXAMPLES, accuracy, run_example, run_to_the_end

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(240)]


def test_mnist_trains_as_collectives(tool: Installed, tmp_path: Path) -> None:
    """Chief, worker and evaluator reach 95 % together; summaries, checkpoints and a model that loads are left."""
    lines = run_example(tool, tmp_path, "mnist")
    assert accuracy(lines) >= 0.95
    output = tmp_path / "claims" / "default" / "mnist-output"
    assert list(output.glob("checkpoints/*.index"))
    assert list(output.glob("logs/chief-0/events*"))
    assert list(output.glob("logs/evaluator/events*"))
    assert digits_right(output / "model" / "1") >= 0.95


def test_a_job_of_2017_trains_between_graphs(tool: Installed, tmp_path: Path) -> None:
    """A TfJob with a master, a worker and two standard parameter servers runs code of TensorFlow 1; each program says
    first who it is."""
    lines = run_to_the_end(tool, tmp_path, EXAMPLES / "tf_job.yaml")
    assert accuracy(lines) >= 0.85
    for task in ("master", "worker"):
        said = [line.partition("| ")[2] for line in lines if line.startswith(f"{task}-0")]
        assert said[0] == f"REPLICA_TYPE={task},REPLICA_INDEX=0"


def test_retraining_says_how_it_goes_and_keeps_model_and_curves(tool: Installed, tmp_path: Path) -> None:
    """Every tenth step as the documents show it, and the same values as curves."""
    lines = run_example(tool, tmp_path, "retrain")
    said = [line.partition("| INFO:tensorflow:")[2] for line in lines]
    steps = [match for match in map(STEP.fullmatch, said) if match]
    assert [int(match["step"]) for match in steps] == [step for step in (*range(0, 500, 10), 499) for _ in range(3)]
    assert re.fullmatch(r"Final test accuracy = (8|9)\d\.\d% \(N=353\)", said[-2])

    output = tmp_path / "claims" / "default" / "tf-files" / "retrain"
    assert (output / "model" / "saved_model.pb").exists()
    shown = [float(match["entropy"]) for match in steps if match["entropy"]]
    assert curve(output / "training_summaries" / "train", "cross_entropy") == pytest.approx(shown, abs=1e-6)
    assert len(curve(output / "training_summaries" / "validation", "accuracy")) == 51


STEP = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: Step (?P<step>\d+): "
    r"(Train accuracy = \d+\.\d%|Cross entropy = (?P<entropy>\d\.\d{6})|Validation accuracy = \d+\.\d% \(N=100\))"
)


def curve(folder: Path, name: str) -> list[float]:
    """The values of a scalar in the event file of a folder."""
    (file,) = folder.glob("events*")
    data, at, values = file.read_bytes(), 0, []
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)  # then its checksum, and that of the record behind it
        event = event_pb2.Event.FromString(data[at + 12 : at + 12 + length])
        values += [tensor_util.make_ndarray(one.tensor).item() for one in event.summary.value if one.tag == name]
        at += 16 + length
    return values


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
    """How many of the test digits an exported model reads right, in a process that knows nothing of the training."""
    program = f"""
import gzip, numpy as np, tensorflow as tf
def read(name, offset):
    return np.frombuffer(gzip.open({str(EXAMPLES / "mnist" / "data")!r} + '/' + name).read(), np.uint8, offset=offset)
images = read('t10k-images-idx3-ubyte.gz', 16).reshape(-1, 28, 28)
labels = read('t10k-labels-idx1-ubyte.gz', 8)
serve = tf.saved_model.load({str(model)!r}).signatures['serving_default']
print((serve(images=tf.constant(images))['digits'].numpy() == labels).mean())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return float(done.stdout)
