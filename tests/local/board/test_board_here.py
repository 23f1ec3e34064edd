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
from support.running import Running, command_of, processes_of, wait_until
from tfjob.local.run.driver_lock import PROGRAM

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


def is_tensorboard(pid: int) -> bool:
    words = command_of(pid).split(b"\0")
    return b"--logdir" in words and b"-c" in words


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
        (server,) = (pid for pid in processes_of(home) if is_tensorboard(pid))
        assert sum("http://" in line for line in run.lines) == 1
        os.kill(server, signal.SIGKILL)
        wait_until(lambda: any(is_tensorboard(pid) for pid in processes_of(home) if pid != server), 120)
        os.kill(run.process.pid, signal.SIGKILL)
        run.finish()
    wait_until(lambda: not processes_of(home), 60, lambda: f"left behind: {processes_of(home)}")


def small(folder: Path, name: str, log_dir: str, *command: str, **board: Any) -> str:
    """A job that ends at once, or runs a command, with curves in a folder beside its manifest."""
    container = {"name": "tensorflow", "image": "someone/trainer:cpu", "command": list(command) or ["true"]}
    spec = {
        "tensorBoard": {"logDir": log_dir, **board},
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


def test_one_that_cannot_start_is_reported_and_does_not_keep_its_job_from_being_deleted(
    tool: Installed, home: Path, tmp_path: Path
) -> None:
    volumes = [{"name": "rules", "configMap": {"name": "rules"}}]
    mounts = [{"name": "rules", "mountPath": "/rules"}]
    file = small(tmp_path, "stuck", "logs", "sleep", "1000", volumes=volumes, volumeMounts=mounts)
    assert tool.tfjob(home, "submit", file).returncode == 0

    def shown() -> str:
        return tool.tfjob(home, "events", "stuck").stdout

    wait_until(lambda: "stuck-tensorboard" in shown() and "rules" in shown(), 90, shown)
    assert tool.tfjob(home, "delete", "stuck", "--yes").returncode == 0
    assert tool.tfjob(home, "status", "stuck").returncode == 3
    assert not processes_of(home)


def answers(url: str) -> bool:
    with suppress(OSError):  # as long as no TensorBoard is ready, the Service closes connections
        return b"tb-relative-root" in call(url)
    return False


def test_its_url_stays_and_answers_again_when_it_was_killed(tool: Installed, home: Path, tmp_path: Path) -> None:
    write_scalar(tmp_path / "logs", TAG, [2.0, 1.0])
    with Running(tool, home, small(tmp_path, "kept", "logs", "sleep", "1000"), "--level", "ports") as run:
        url = url_of(run)
        assert any(url in line and f"shows {tmp_path}/logs" in line for line in run.lines), run.lines
        assert b"tb-relative-root" in call(url)
        (server,) = (pid for pid in processes_of(home) if is_tensorboard(pid))
        os.kill(server, signal.SIGKILL)
        wait_until(lambda: any(is_tensorboard(pid) for pid in processes_of(home) if pid != server), 120)
        wait_until(lambda: answers(url), 120)
        run.process.send_signal(signal.SIGINT)
        run.finish()
    assert not processes_of(home)


def test_the_next_driver_of_a_job_keeps_it_and_it_ends_with_the_job(
    tool: Installed, home: Path, tmp_path: Path
) -> None:
    wait = "while [ ! -e stop ]; do sleep 0.1; done"
    assert tool.tfjob(home, "submit", small(tmp_path, "long", "logs", "sh", "-c", wait)).returncode == 0

    def events() -> str:
        return tool.tfjob(home, "events", "long").stdout

    wait_until(lambda: URL.search(events()) is not None, 120, events)
    found = URL.search(events())
    assert found is not None
    (server,) = (pid for pid in processes_of(home) if is_tensorboard(pid))
    (driver,) = (pid for pid in processes_of(home) if PROGRAM.encode() in command_of(pid))
    os.kill(driver, signal.SIGKILL)
    wait_until(lambda: driver not in processes_of(home), 60)

    def answers() -> bool:
        with suppress(URLError, ConnectionError, TimeoutError):
            return b"tb-relative-root" in call(found[0])
        events()  # a command starts the next driver
        return False

    wait_until(answers, 60)
    assert [pid for pid in processes_of(home) if is_tensorboard(pid)] == [server]
    (tmp_path / "stop").touch()
    wait_until(lambda: not processes_of(home), 60, lambda: f"left behind: {processes_of(home)}")
    assert tool.tfjob(home, "status", "long").returncode == 0


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
