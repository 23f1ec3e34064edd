"""TensorBoard on this machine in a real browser: beside a run, and after it.

In the suite of the clusters, which has the time for a browser.
"""

from __future__ import annotations

import json
import os
import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
import yaml

from support.board.browser import Browser, until_scalar
from support.board.event_files import write_scalar
from support.board.serving import call
from support.command_line import GOLDEN
from support.golden import check_golden
from support.installed import Installed
from support.running import Running, processes_of, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

TAG = "epoch_loss"
TRAINING = """
import os, pathlib, sys, time
begin, stop = map(pathlib.Path, sys.argv[1:])
while not begin.exists():
    time.sleep(0.1)
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy, tensorflow as tf
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
inputs = numpy.linspace(0, 1, 64).reshape(64, 1)
board = tf.keras.callbacks.TensorBoard("/app/tf_files/training_summaries", write_graph=False)
model.fit(inputs, 2 * inputs, epochs=3, verbose=0, callbacks=[board])
print("trained", flush=True)
while not stop.exists():
    time.sleep(0.1)
"""
URL = re.compile(r"http://127\.0\.0\.1:\d+/")


def manifest(folder: Path, *command: str) -> str:
    """The third exercise of the documents: the trainer and TensorBoard mount one volume at different paths."""
    volumes = [{"name": "share", "persistentVolumeClaim": {"claimName": "results"}}]
    container = {
        "name": "tensorflow",
        "image": "someone/trainer:cpu",
        "command": list(command),
        "volumeMounts": [{"name": "share", "mountPath": "/app/tf_files"}],
    }
    spec: dict[str, Any] = {
        "tensorboard": {
            "logDir": "/tmp/tensorflow/training_summaries",
            "serviceType": "LoadBalancer",
            "volumes": volumes,
            "volumeMounts": [{"name": "share", "mountPath": "/tmp/tensorflow"}],
        },
        "replicaSpecs": [{"template": {"spec": {"volumes": volumes, "containers": [container]}}}],
    }
    job = {"apiVersion": "tensorflow.org/v1alpha1", "kind": "TfJob", "metadata": {"name": "board"}, "spec": spec}
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    return str(file)


def url_of(running: Running) -> str:
    """Where a run or a command says that TensorBoard is."""
    wait_until(lambda: any(map(URL.search, running.lines)), 120, lambda: "\n".join(running.lines))
    return next(found[0] for line in running.lines if (found := URL.search(line)))


@pytest.mark.long
@pytest.mark.tensorflow
@pytest.mark.root  # paths of volumes are real only with mounts of one's own
def test_the_scalar_that_a_training_wrote_is_on_the_page_while_it_runs_and_afterwards(
    tool: Installed, home: Path, tmp_path: Path
) -> None:
    begin, stop = tmp_path / "begin", tmp_path / "stop"
    browser = Browser(tmp_path)
    with Running(tool, home, manifest(tmp_path, "python", "-c", TRAINING, str(begin), str(stop))) as run:
        url = url_of(run)
        assert any(url in line and "event files" in line for line in run.lines), run.lines
        begin.touch()
        run.wait_for("trained", 150)
        until_scalar(browser, url, TAG)
        stop.touch()
        assert run.finish() == 0
    wait_until(lambda: not processes_of(home), 60, lambda: "TensorBoard outlives the run")

    with Running(tool, home, "board", "--port", "0", command="tensorboard") as viewer:
        until_scalar(browser, url_of(viewer), TAG)
        viewer.process.send_signal(signal.SIGINT)
        assert viewer.finish() == 0
    assert not processes_of(home)


def test_it_is_started_again_if_it_ends_and_ends_with_the_run_even_if_that_is_killed(
    tool: Installed, home: Path, tmp_path: Path
) -> None:
    with Running(tool, home, manifest(tmp_path, "sleep", "1000")) as run:
        url_of(run)
        (server,) = (
            pid for pid in processes_of(home) if b"tensorboard.main" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )
        assert sum("http://" in line for line in run.lines) == 1
        os.kill(server, signal.SIGKILL)
        run.wait_for("http://", 120, count=2)
        os.kill(run.process.pid, signal.SIGKILL)
        run.finish()
    wait_until(lambda: not processes_of(home), 60, lambda: f"left behind: {processes_of(home)}")


def small(folder: Path, name: str, log_dir: str, **policy: Any) -> str:
    """A job that ends at once, with curves in a folder beside its manifest."""
    container = {"name": "tensorflow", "image": "someone/trainer:cpu", "command": ["true"]}
    spec = {
        "tensorBoard": {"logDir": log_dir},
        "runPolicy": policy,
        "tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [container]}}}},
    }
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": name}, "spec": spec}
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(job))
    return str(file)


def test_several_jobs_stand_side_by_side_in_one_and_nothing_stays_of_it(
    tool: Installed, home: Path, tmp_path: Path
) -> None:
    for name in ("narrow", "wide"):
        write_scalar(tmp_path / f"{name}-logs", TAG, [2.0, 1.0])
        assert tool.tfjob(home, "run", small(tmp_path, name, f"{name}-logs")).returncode == 0
    with Running(tool, home, "narrow", "wide", "--port", "0", command="tensorboard") as viewer:
        url = url_of(viewer)
        viewer.wait_for("Ctrl-C")
        shown = "\n".join(viewer.lines)
        assert f"{tmp_path}/narrow-logs" in shown
        assert f"{tmp_path}/wide-logs" in shown
        check_golden(GOLDEN / "tensorboard-two.txt", shown.replace(url, "URL").replace(str(tmp_path), "FOLDER") + "\n")
        tags: dict[str, Any] = {}

        def loaded() -> bool:
            with suppress(URLError, ConnectionError, TimeoutError):
                tags.update(json.loads(call(f"{url}data/plugin/scalars/tags")))
            return len(tags) == 2

        wait_until(loaded, 90, lambda: f"{tags}")
        assert {run: list(found) for run, found in tags.items()} == {"narrow": [TAG], "wide": [TAG]}
        viewer.process.send_signal(signal.SIGINT)
        assert viewer.finish() == 0
    assert not processes_of(home)


def test_one_that_cannot_start_is_tried_again_in_peace_and_does_not_keep_its_job_from_being_deleted(
    tool: Installed, home: Path, tmp_path: Path
) -> None:
    assert tool.tfjob(home, "submit", small(tmp_path, "stuck", "logs", suspend=True)).returncode == 0
    (folder,) = home.glob("runs/*/*")
    (folder / "tensorboard.log").mkdir()  # where its output should go
    assert tool.tfjob(home, "resume", "stuck").returncode == 0
    log = folder / "controller.log"
    wait_until(lambda: "/tensorboard.log'" in log.read_text(), 90, log.read_text)
    line = next(line for line in log.read_text().splitlines() if "/tensorboard.log'" in line)
    shown = re.sub(r"\[Errno.*'", "ERROR", line[line.index("TensorBoard") :])
    check_golden(GOLDEN / "tensorboard-not-started.txt", f"{shown}\n")
    assert tool.tfjob(home, "delete", "stuck", "--yes").returncode == 0
    assert tool.tfjob(home, "status", "stuck").returncode == 3


@pytest.mark.root
def test_without_tensorboard_the_run_goes_on_and_the_line_that_installs_it_is_shown(
    user_tool: Installed, tmp_path: Path
) -> None:
    home = user_tool.make_folder(tmp_path / "home")
    file = manifest(tmp_path, "echo", "trained")
    done = user_tool.tfjob(home, "run", file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "trained" in done.stdout
    assert "-m pip install 'tfjob[tensorboard]'" in done.stderr
    shown = user_tool.tfjob(home, "tensorboard", "board")
    assert shown.returncode == 2
    assert "-m pip install 'tfjob[tensorboard]'" in shown.stderr
