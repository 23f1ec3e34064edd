"""What `tfjob init` writes trains as it is: the loss falls, a killed replica costs no more than its last steps.

In the long form: in CI a newcomer walks the same way with the default template, at a terminal.
"""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import NamedTuple

import pytest

from support.installed import Installed
from support.running import Running, workload_pid
from support.training.gated import Gate
from tfjob.cli.commands.init import TEMPLATES

pytestmark = [pytest.mark.long, pytest.mark.tensorflow, pytest.mark.timeout(600)]

PATIENCE = 180.0


class Case(NamedTuple):
    """Which replica is killed after which step, which one reports the training in what words, what the job leaves."""

    killed: str
    after: int
    teller: str
    progress: str
    resumed: str
    last: int
    left: set[str]


CASES = {
    "multi-worker": Case("worker-1", 150, "worker-0", "step", "from step", 600, {"ckpt-600.index", "finished"}),
    "parameter-server": Case("chief-0", 300, "chief-0", "step", "from step", 1000, {"ckpt-1000.index", "finished"}),
    "single": Case("worker-0", 5, "worker-0", "epoch", "after epoch", 20, set()),
}


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_trains_and_resumes_from_its_checkpoint(tool: Installed, tmp_path: Path, template: str) -> None:
    """The loss falls and the job resumes after the kill; it leaves summaries, checkpoints and a model."""
    case = CASES[template]
    home, project = tmp_path / "home", tmp_path / "digits"
    assert tool.tfjob(home, "init", template, str(project), "--fast").returncode == 0
    gate = Gate(project / "train.py", case.after)
    with Running(tool, home, str(project / "tfjob.yaml")) as job:
        job.wait_for_step(case.after, case.teller, case.progress, timeout=PATIENCE)
        os.kill(workload_pid(home, f"digits-{case.killed}"), signal.SIGKILL)
        gate.let_train_to(case.last)
        job.wait_for(f"resumed {case.resumed}", timeout=PATIENCE)
        assert job.finish(timeout=PATIENCE) == 0
    said = "\n".join(job.lines_of(case.teller))
    resumed = re.search(rf"resumed {case.resumed} (\d+)", said)
    assert resumed
    assert int(resumed[1]) >= case.after - 1  # the backup of an epoch is written after its line
    told = re.findall(rf"{case.progress} (\d+)/{case.last} loss (\S+) ", said)
    assert int(told[-1][0]) == case.last
    assert float(told[-1][1]) < float(told[0][1]) / 2
    left = {path.name for path in tmp_path.rglob("*")}
    assert {"saved_model.pb", *case.left} <= left
    assert any("tfevents" in name for name in left)
