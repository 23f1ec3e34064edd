"""Each Keras with each strategy, as the table of the guide says."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from support.installed import Installed
from support.running import status
from support.training.strategies import CELLS, FAILS, LAYER, LEGACY, STRATEGIES, Cell
from tfjob.plan.policy.known_errors import KNOWN_ERRORS

PROGRAM = Path(__file__).parents[2] / "programs" / "strategies.py"
IN_CI = Cell("multi-worker", "fit", LEGACY, "trains")
"""Other tests of CI run `fit` and custom loops of Keras 3 with several workers and with parameter servers."""


@pytest.mark.tensorflow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "cell",
    [pytest.param(cell, marks=() if cell == IN_CI else pytest.mark.long, id="-".join(cell[:3])) for cell in CELLS],
)
def test_a_keras_trains_with_a_strategy(tool: Installed, home: Path, tmp_path: Path, cell: Cell) -> None:
    """The losses fall, and an evaluator reads the checkpoint; a combination that cannot train fails with advice."""
    legacy = ("--env", "TF_USE_LEGACY_KERAS=1") if cell.library == LEGACY else ()
    options = (*STRATEGIES[cell.strategy].options, *legacy, "--name", "cell", "--python", sys.executable)
    words = ("run", str(PROGRAM), *options, "--", cell.strategy, cell.loop)
    done = tool.tfjob(home, *words, cwd=tmp_path)
    if cell.outcome == FAILS:
        assert done.returncode == 1, done.stdout + done.stderr
        (known,) = (entry for entry in KNOWN_ERRORS if entry.name == "keras-parameter-server")
        failure = status(tool, home, "cell")["failure"]
        assert isinstance(failure, dict)
        assert failure["advice"] == f"{known.cause} {known.remedy}"
        return
    assert done.returncode == 0, done.stdout + done.stderr
    (trained,) = re.findall(r"\| (\w+) losses (\[.*\])$", done.stdout, re.MULTILINE)
    losses = json.loads(trained[1])
    assert trained[0] == cell.library
    assert losses[-1] < losses[0]
    evaluated = re.findall(r"^evaluator-0 \| evaluated loss (\S+)$", done.stdout, re.MULTILINE)
    assert len(evaluated) == ("--evaluator" in options)
    assert all(float(loss) < losses[0] for loss in evaluated)
    events = json.loads(tool.tfjob(home, "events", "cell", "-o", "json").stdout)["items"]
    assert ("KerasLayer" in {event["reason"] for event in events}) is (cell.outcome == LAYER)
