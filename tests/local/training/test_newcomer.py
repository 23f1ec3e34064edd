"""A newcomer's first five minutes with tfjob at a terminal; every step is timed and printed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from support.board.browser import Browser, until_scalar
from support.local.warm_pods import fork_servers_ended
from support.running import wait_until
from support.tmux import PROMPT, Tmux, tmux
from support.training.gated import Gate

ROOT = Path(__file__).parents[3]
EXTRAS = ("--extra", "tensorflow", "--extra", "tensorboard")
LOSS = re.compile(r"worker-0 +\| step (\d+)/\d+ loss (\d+\.\d+)")
URL = r"http://127\.0\.0\.1:\d+/"


@contextmanager
def step(name: str) -> Iterator[None]:
    """A step of the walk, and how long it took."""
    begun = time.monotonic()
    yield
    print(f"{name}: {time.monotonic() - begun:.1f} s")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """The programs of a fresh virtualenv with tfjob, built and installed, in the versions of the lock file."""
    own = ROOT / ".uv" / "bin" / "uv"
    uv = os.environ.get("UV") or (str(own) if own.exists() else shutil.which("uv"))
    if not uv:
        pytest.skip("needs uv, which the README's first line installs")
    words = ["sync", "--quiet", "--frozen", "--no-dev", "--no-editable", *EXTRAS, "--project", str(ROOT)]
    environ = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(tmp_path / "venv"), "UV_PYTHON_DOWNLOADS": "never"}
    with step("install"):
        subprocess.run([uv, *words], env=environ, check=True)
    return tmp_path / "venv" / "bin"


def losses(terminal: Tmux) -> list[tuple[int, float]]:
    """What the first worker printed so far: the steps, each saved before it is printed, and the loss at each."""
    return [(int(found[1]), float(found[2])) for found in LOSS.finditer(terminal.everything())]


def curve(url: str, tag: str) -> list[tuple[int, float]]:
    """The steps and values of the first worker's curve, as TensorBoard gives them to its page."""
    with urlopen(f"{url}data/plugin/scalars/tags", timeout=60) as answer:
        run = min(run for run, tags in json.load(answer).items() if tag in tags)
    with urlopen(f"{url}data/plugin/scalars/scalars?{urlencode({'run': run, 'tag': tag})}", timeout=60) as answer:
        return [(step, value) for _, step, value in json.load(answer)]


@pytest.mark.tensorflow
@pytest.mark.root  # the paths of volumes are real only with mounts of one's own
@pytest.mark.timeout(600)
def test_a_newcomer_trains_loses_a_worker_goes_on_and_sees_the_curve(programs: Path, tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    environ = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TFJOB_HOME": str(home),
        "LANG": "C.UTF-8",
        "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
    }
    with (
        fork_servers_ended(home),
        tmux(environ, project, 100, 30) as terminal,
        tmux(environ, project, 100, 30) as other,
    ):
        with step("init"):
            terminal.type("tfjob init --fast")
            wait_until(lambda: {path.name for path in project.iterdir()} == {"tfjob.yaml", "train.py"}, 60)
            terminal.wait_for_prompt()
        gate = Gate(project / "train.py", 200)
        with step("run, to the first loss"):
            terminal.type("tfjob run tfjob.yaml")
            terminal.wait_for(LOSS.pattern, 180)
        with step("some steps more, and the loss falls"):
            wait_until(lambda: len(losses(terminal)) >= 3, 120, terminal.everything)
            (_, first), *_, (saved, third) = losses(terminal)
            assert third < first
        with step("kill -9 of a worker, to the step that both resume from"):
            killed = other.answer("tfjob status multi-worker | tee shown | sed -n 's/^To kill worker-1: //p' | bash")
            shown_pid = re.search(r"^ +worker-1 +Running +1 +- +(\d+) ", (project / "shown").read_text(), re.M)
            assert shown_pid, killed
            assert f"\nTo kill worker-1: kill -9 {shown_pid[1]}\n" in (project / "shown").read_text()
            gate.let_train_to(600)
            terminal.wait_for(r"worker-1 .*SIGKILL", 120)
            resumed = terminal.wait_for(r"worker-0 +\| resumed from step (\d+)", 180)
            assert int(resumed[1]) >= saved
        with step("to the end"):
            terminal.wait_for_prompt(180)
            assert losses(terminal)[-1][1] < 0.5 * first
            left = {path.name for path in (home / "claims").rglob("*")}
            assert {"ckpt-600.index", "saved_model.pb", "finished"} <= left
        with step("logs and status"):
            assert "resumed from step" in terminal.answer("tfjob logs multi-worker worker-1")
            terminal.answer("tfjob status multi-worker -o json > shown")
            shown = json.loads((project / "shown").read_text())
            assert (shown["state"], shown["restarts"]) == ("Succeeded", 1)
            assert {one["attempts"] for one in shown["replicas"]} == {2}
        with step("the curve in a browser"):
            terminal.type("tfjob tensorboard multi-worker --port 0 --no-browser")
            url = terminal.wait_for(URL, 120)[0]
            until_scalar(Browser(tmp_path), url, "loss")
            steps, values = zip(*curve(url, "loss"), strict=True)
            assert steps[-1] == 600
            assert values[-1] < 0.5 * values[0]
            terminal.press("C-c")
            terminal.wait_for(rf"\^C{PROMPT}$")
