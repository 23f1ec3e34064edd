"""Real TensorFlow, forked: every start gives what a cold one gives, and none hangs."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.local.pod_harness import Place, PodRun, Pods, at
from support.local.warm_pods import WarmPods, warm_pods
from support.long_form import Scaled

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(300)]

STARTS = 1000
AT_ONCE = 3
PATIENCE = 120.0
PROGRAM = """
import os, numpy as np, tensorflow as tf
drawn = np.random.rand(), float(tf.random.uniform([]))
tf.random.set_seed(7)
data = tf.data.Dataset.range(64).map(lambda i: tf.cast(i, tf.float32), num_parallel_calls=2).batch(16).prefetch(2)
weights = tf.Variable(tf.random.normal([16, 16]))
@tf.function
def step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.linalg.matvec(weights, batch) - 1.0))
    weights.assign_sub(1e-6 * tape.gradient(loss, weights))
    return loss
losses = [float(step(batch)) for _ in range(2) for batch in data]
product = float((np.arange(90000.0).reshape(300, 300) @ np.ones((300, 300))).sum())
print('drawn', *drawn)
print('result', losses, product, tf.reduce_sum(weights).numpy())
"""


@pytest.fixture
def warm(pods: Pods) -> Iterator[WarmPods]:
    with warm_pods(pods) as made:
        made.python = Path(sys.executable)
        yield made


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(PROGRAM)
    return tmp_path


HERE = at([Place("full", "root" if os.geteuid() == 0 else "user")])


def said(run: PodRun) -> dict[str, str]:
    """What a program printed, by its first word."""
    assert run.ended(timeout=PATIENCE)["exitCode"] == 0, run.log()
    lines = (line.partition(" ") for line in run.log().splitlines())
    return {word: rest for word, _, rest in lines if word in ("drawn", "result")}


@HERE
def test_forked_trainings_give_the_result_of_a_cold_one(warm: WarmPods, program: Path) -> None:
    """With other random numbers each where no seed is set."""
    cold = said(warm.launch_cold("train.py", cwd=program))
    runs = [warm.launch("train.py", cwd=program) for _ in range(3)]
    found = [said(run) for run in runs]
    assert [run.status()["cold"] for run in runs] == [{}, {}, {}]
    assert {one["result"] for one in found} == {cold["result"]}
    assert len({cold["drawn"], *(one["drawn"] for one in found)}) == 4


@pytest.mark.long
@HERE
def test_forks_start_warm_although_tensorflow_imports_pyarrow(warm: WarmPods, tmp_path: Path) -> None:
    """Its allocator starts a thread when it is imported, and a process with threads must not fork."""
    warm.python = _with_pyarrow(tmp_path / "virtualenv")
    (tmp_path / "train.py").write_text("import sys, tensorflow\nprint('result', 'pyarrow' in sys.modules)\n")
    run = warm.launch("train.py", cwd=tmp_path)
    assert said(run) == {"result": "True"}
    assert run.status()["cold"] == {}


def _with_pyarrow(folder: Path) -> Path:
    """Return the Python of a virtualenv with pandas and pyarrow and the packages of the tests: a 60 MB download."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    packages = ["pandas==2.3.3", "pyarrow==22.0.0", "python-dateutil", "pytz", "tzdata", "six"]
    subprocess.run([folder / "bin" / "pip", "install", "--quiet", "--no-deps", *packages], check=True)
    site = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    (folder / site / "tests.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin" / "python"


@pytest.mark.long
@pytest.mark.timeout(3 * 3600)
@HERE
def test_many_forked_starts_show_no_hang_and_no_wrong_result(warm: WarmPods, program: Path, scaled: Scaled) -> None:
    """A thousand of them had to hold before warm starts could become the default."""
    starts = scaled(STARTS)
    expected = said(warm.launch_cold("train.py", cwd=program))["result"]
    live: list[PodRun] = []
    drawn: set[str] = set()
    begun = time.monotonic()
    for number in range(starts + AT_ONCE):
        if len(live) == AT_ONCE or number >= starts:
            run = live.pop(0)
            one = said(run)
            assert one["result"] == expected, f"start {number}"
            assert run.status()["cold"] == {}, f"start {number}"
            drawn.add(one["drawn"])
        if number < starts:
            live.append(warm.launch("train.py", cwd=program))
        if number % 50 == 0:
            print(f"{len(drawn)} starts, {time.monotonic() - begun:.0f} s", flush=True)
    assert len(drawn) == starts
