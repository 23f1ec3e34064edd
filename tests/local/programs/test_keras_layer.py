"""The Keras layer in processes of its own: what it hides, when it stays away, and how its use is reported."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.installed import Installed
from support.local.warm_pods import end_fork_servers, standin_python
from tfjob.local.inputs.keras_layer import FOLDER, SWITCH, TO_LOG

TRAINER = "keras.src.backend.tensorflow.trainer"
LOOK = f"""
import sys
import {TRAINER} as trainer
print(trainer.reduce_per_replica(), any(type(one).__name__ == 'Finder' for one in sys.meta_path))
"""


def python(tmp_path: Path, program: str, **env: str) -> str:
    """Run a program with the layer before a folder of the user; return what it prints."""
    variables = {"PYTHONPATH": f"{FOLDER}:{tmp_path}", "TF_CONFIG": "{}", **env}
    done = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def put_keras(folder: Path, version: str) -> None:
    """Write a Keras that consists of the modules that the layer looks at."""
    for name in ("keras", "keras/src", "keras/src/backend", "keras/src/backend/tensorflow", "keras/src/callbacks"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").touch()
    (folder / "keras/src/version.py").write_text(f"__version__ = {version!r}")
    (folder / "keras/src/callbacks/backup_and_restore.py").write_text("class BackupAndRestore: pass")
    text = "import keras.src.callbacks.backup_and_restore\ndef reduce_per_replica(): return 'original'"
    (folder / "keras/src/backend/tensorflow/trainer.py").write_text(text)


@pytest.mark.parametrize("version", ["3.15.1", "9.0.0"])
def test_a_keras_that_the_layer_does_not_know_stays_as_it_is(tmp_path: Path, version: str) -> None:
    """The version alone is not enough: the files must be those that the layer was written for."""
    put_keras(tmp_path, version)
    assert python(tmp_path, LOOK) == "original False"


def load() -> Any:
    """Return the layer as a module of this process, where it replaces nothing."""
    spec = importlib.util.spec_from_file_location("layer", f"{FOLDER}/sitecustomize.py")
    assert spec is not None
    assert spec.loader is not None
    layer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(layer)
    return layer


def test_in_a_pod_the_first_use_is_a_line_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    module = load()
    layer = object.__new__(module.Layer)
    layer.version, layer.report = "3.15.1", TO_LOG
    layer.report_use()
    layer.report_use()
    assert capsys.readouterr().err.count("Keras 3.15.1") == 1


def test_the_layer_knows_the_keras_of_the_tests() -> None:
    layer = load()
    assert importlib.metadata.version("keras").startswith(layer.VERSIONS)
    for module, digests in layer.DIGESTS.items():
        file = importlib.metadata.distribution("keras").locate_file(module.replace(".", "/") + ".py")
        assert hashlib.sha256(Path(str(file)).read_bytes()).hexdigest() in digests


@pytest.mark.parametrize("env", [{"TF_CONFIG": "{}", SWITCH: "0"}, {"TF_CONFIG": "{}"}])
def test_the_layer_only_waits_for_keras_unless_it_is_turned_off(tmp_path: Path, env: dict[str, str]) -> None:
    found = python(tmp_path, "import sys; print(type(sys.meta_path[0]).__name__)", **env)
    assert (found == "Finder") is (SWITCH not in env)


def test_the_sitecustomize_that_the_layer_hides_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    look = "import sys, sitecustomize; print(sitecustomize.__file__, any('keras_layer' in one for one in sys.path))"
    assert python(tmp_path, look) == f"mine\n{tmp_path}/sitecustomize.py False"


def test_a_hidden_sitecustomize_that_fails_does_so_as_without_the_layer(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import missing_module")
    command, shown = [sys.executable, "-c", "print('ran')"], []
    for path in (f"{FOLDER}:{tmp_path}", str(tmp_path)):
        env = {"PYTHONPATH": path, "TF_CONFIG": "{}"}
        shown.append(subprocess.run(command, env=env, capture_output=True, text=True, check=True))
    assert (shown[0].stdout, shown[0].stderr) == (shown[1].stdout, shown[1].stderr)
    assert "missing_module" in shown[0].stderr


PROGRAM = """
import os, sys, tensorflow
import mine
file = os.environ.get('TFJOB_KERAS_REPORT')
if file:
    open(file, 'w').write('3.15.1')
print('layer' if file else 'no layer', any(type(one).__name__ == 'Finder' for one in sys.meta_path))
"""
MANIFEST = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: NAME}
spec:
  successPolicy: AllWorkers
  tfReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - {name: tensorflow, image: "standin:1", command: [python, train.py], env: ENV}
"""


class Jobs:
    """Runs jobs of two workers with a stand-in for TensorFlow."""

    def __init__(self, tool: Installed, folder: Path) -> None:
        self._tool = tool
        self._folder = folder
        self.home = folder / "home"
        self._python = standin_python(folder / "venv")
        (folder / "mine").mkdir()
        (folder / "mine" / "mine.py").touch()
        (folder / "train.py").write_text(PROGRAM)

    def run(self, name: str, *options: str, **env: str) -> tuple[set[str], set[str], list[str]]:
        """Run a job; return how its replicas started, what they print, and the events about the layer."""
        variables = [{"name": key, "value": value} for key, value in env.items()]
        text = MANIFEST.replace("NAME", name).replace("ENV", json.dumps(variables))
        manifest = self._folder / f"{name}.yaml"
        manifest.write_text(text)
        done = self._tool.tfjob(self.home, "run", str(manifest), "--python", str(self._python), *options)
        assert done.returncode == 0, done.stdout + done.stderr
        printed = {line.partition(" | ")[2] for line in done.stdout.splitlines() if " | " in line}
        replicas = self._json("status", name)["replicas"]
        events = [one["message"] for one in self._json("events", name)["items"] if one["reason"] == "KerasLayer"]
        return {replica["start"].partition(":")[0] for replica in replicas}, printed, events

    def _json(self, *words: str) -> Any:
        return json.loads(self._tool.tfjob(self.home, *words, "-o", "json").stdout)


def test_replicas_load_the_layer_cold_and_warm_and_an_event_reports_its_use(tool: Installed, tmp_path: Path) -> None:
    """The user's PYTHONPATH keeps working, and a variable of the manifest turns the layer off."""
    jobs = Jobs(tool, tmp_path)
    mine = str(tmp_path / "mine")
    try:
        for start, options in (("cold", ["--cold"]), ("warm", [])):
            starts, printed, events = jobs.run(f"{start}-on", *options, PYTHONPATH=mine)
            assert (starts, printed) == ({start}, {"layer True"})
            (event,) = events
            assert "Keras 3.15.1" in event
            assert f"{SWITCH}=0" in event
            starts, printed, events = jobs.run(f"{start}-off", *options, PYTHONPATH=mine, **{SWITCH: "0"})
            assert (starts, printed, events) == ({start}, {"no layer False"}, [])
    finally:
        end_fork_servers(jobs.home)
