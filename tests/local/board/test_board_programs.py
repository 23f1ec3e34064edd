"""TensorBoard for jobs whose manifest does not mention it: it finds what a program has written, and where."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import URLError

import pytest
import yaml

from support.board.event_files import write_scalar
from support.board.serving import call
from support.installed import Installed
from support.running import Running, wait_until

pytestmark = pytest.mark.timeout(300)

WRITER = """
import os, pathlib, sys, time, types
sys.modules["tensorboard.compat.notf"] = types.ModuleType("notf")  # TensorBoard without TensorFlow
from tensorboard.summary import Writer
gate = os.environ.get("GATE")
while gate and not pathlib.Path(gate, "begin").exists():
    time.sleep(0.05)
for folder in sys.argv[1:]:
    writer = Writer(os.path.expandvars(folder))
    writer.add_scalar("loss", 1.0, 0)
    writer.close()
print("written", flush=True)
while gate and not pathlib.Path(gate, "end").exists():
    time.sleep(0.05)
"""
URL = re.compile(r"http://127\.0\.0\.1:\d+/")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "write.py").write_text(WRITER)
    return tmp_path / "project"


def run(tool: Installed, home: Path, project: Path, *words: str) -> None:
    done = tool.tfjob(home, "run", "--plain", "--cold", *words, cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr


class View:
    """A running `tfjob tensorboard`."""

    def __init__(self, running: Running) -> None:
        running.wait_for("Ctrl-C")
        self.lines = running.lines
        self.url = next(found[0] for line in running.lines if (found := URL.search(line)))

    def runs(self) -> set[str]:
        with suppress(URLError, ConnectionError, TimeoutError):
            return set(json.loads(call(f"{self.url}data/runs")))
        return set()

    def shows(self, *runs: str) -> None:
        wait_until(lambda: self.runs() >= set(runs), 120, lambda: f"{self.runs()}")
        assert self.runs() == set(runs)


@contextmanager
def shown(tool: Installed, home: Path, project: Path, *words: str) -> Iterator[View]:
    with Running(tool, home, *words, "--port", "0", command="tensorboard", cwd=project) as viewer:
        yield View(viewer)
        viewer.process.send_signal(signal.SIGINT)
        assert viewer.finish() == 0


def test_what_a_script_wrote_is_found_wherever_it_is(tool: Installed, home: Path, project: Path) -> None:
    """Not what another program has written to a usual folder before."""
    os.utime(write_scalar(project / "runs" / "older", "loss", [1.0]), (0, 0))
    folders = ("logs/fit/1", "$TFJOB_OUTPUT_DIR/train", "$TFJOB_CHECKPOINT_DIR/eval", "elsewhere")
    run(tool, home, project, "write.py", "--", *folders)
    storage = home / "claims" / "default" / "write-tfjob-data"
    with shown(tool, home, project, "write") as view:
        assert f"showing {storage}, {project / 'logs'}" in view.lines
        view.shows(f"{storage.name}/output/train", f"{storage.name}/checkpoints/eval", "logs/fit/1")
    with shown(tool, home, project, "write", "--logdir", "elsewhere") as view:
        assert f"showing {project / 'elsewhere'}" in view.lines
        view.shows(".")


def test_one_folder_and_jobs_with_several_are_shown_under_their_names(
    tool: Installed, home: Path, project: Path
) -> None:
    for name, folders in (("one", ["$TFJOB_OUTPUT_DIR/train"]), ("two", ["$TFJOB_OUTPUT_DIR", "runs/1"])):
        run(tool, home, project, "write.py", "--name", name, "--", *folders)
    with shown(tool, home, project, "one") as view:
        view.shows("output/train")
    with shown(tool, home, project, "one", "two") as view:
        view.shows("one/output/train", "two/two-tfjob-data/output", "two/runs/1")


def test_a_job_that_has_written_nothing_yet_is_shown_once_it_has(tool: Installed, home: Path, project: Path) -> None:
    gate = project / "gate"
    gate.mkdir()
    words = ("write.py", "-d", "--cold", "--env", f"GATE={gate}", "--", "logs/late", "$TFJOB_OUTPUT_DIR/late")
    assert tool.tfjob(home, "run", *words, cwd=project).returncode == 0
    with shown(tool, home, project, "write") as view:
        assert any(line.startswith("no event files yet in ") and f"{project / 'logs'}" in line for line in view.lines)
        (gate / "begin").touch()
        view.shows("write-tfjob-data/output/late", "logs/late")
    (gate / "end").touch()
    assert tool.tfjob(home, "wait", "write").returncode == 0


def test_the_folders_that_a_manifest_names_are_searched(tool: Installed, home: Path, project: Path) -> None:
    container = {
        "name": "tensorflow",
        "image": "someone/trainer",
        "command": ["python", "write.py", "$(TFJOB_OUTPUT_DIR)/train"],
        "env": [{"name": "TFJOB_OUTPUT_DIR", "value": "/results/here"}],
        "volumeMounts": [{"name": "results", "mountPath": "/results"}],
    }
    pod = {
        "containers": [container],
        "volumes": [{"name": "results", "persistentVolumeClaim": {"claimName": "results"}}],
    }
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "named"},
        "spec": {"tfReplicaSpecs": {"Worker": {"template": {"spec": pod}}}},
    }
    (project / "job.yaml").write_text(yaml.safe_dump(job))
    run(tool, home, project, "job.yaml")
    with shown(tool, home, project, "named") as view:
        assert f"showing {home / 'claims' / 'default' / 'results' / 'here'}" in view.lines
        view.shows("train")


def test_without_event_files_the_folders_are_named(tool: Installed, home: Path, project: Path) -> None:
    """Also if a later job has written to a usual folder."""
    run(tool, home, project, "write.py", "--name", "silent")
    later = write_scalar(project / "logs", "loss", [1.0])
    os.utime(later, (later.stat().st_mtime + 60,) * 2)
    told = tool.tfjob(home, "tensorboard", "silent", cwd=project)
    assert told.returncode == 3
    folders = home / "claims" / "default" / "silent-tfjob-data", project / "logs", project / "runs"
    assert f"to {', '.join(map(str, folders))}\n" in told.stderr
    assert "--logdir" in told.stderr
