"""What `tfjob init` writes trains as it is: the loss falls, a killed worker costs no more than its last steps.

In the long form: in CI a newcomer walks the same way, at a terminal.
"""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from installed import Installed
from running import Running, workload_pid
from tfjob.cli.init import DEFAULT

pytestmark = [pytest.mark.long, pytest.mark.tensorflow, pytest.mark.timeout(240)]

STEP = re.compile(r"step (\d+)/600 loss (\S+) ")


def test_the_default_template_trains_and_resumes_from_its_checkpoint(tool: Installed, tmp_path: Path) -> None:
    """Both workers start again when one is killed; summaries, checkpoints and a model are left."""
    home, project = tmp_path / "home", tmp_path / "project"
    assert tool.tfjob(home, "init", DEFAULT, str(project)).returncode == 0
    job = Running(tool, home, str(project / "tfjob.yaml"))
    job.wait_for("step 150/600", timeout=100)
    os.kill(workload_pid(home, f"{DEFAULT}-worker-1"), signal.SIGKILL)
    job.wait_for("resumed from step", timeout=100)
    assert job.finish(timeout=100) == 0
    said = "\n".join(job.lines_of("worker-0"))
    resumed = re.search(r"resumed from step (\d+)", said)
    assert resumed
    assert int(resumed[1]) >= 150
    steps = [(int(step), float(loss)) for step, loss in STEP.findall(said)]
    assert steps[0][0] == 50
    assert steps[-1][0] == 600
    assert steps[-1][1] < steps[0][1] / 2
    left = {path.name for path in tmp_path.rglob("*")}
    assert {"ckpt-600.index", "saved_model.pb", "finished"} <= left
    assert any("tfevents" in name for name in left)
