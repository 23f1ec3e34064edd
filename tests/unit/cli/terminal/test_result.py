"""The last lines of an attached run."""

from __future__ import annotations

import click
import pytest
from msgspec.structs import replace

from support.golden import Wording
from support.plan.builders import T0, at, job
from tfjob.api.types import TFJobStatus, Verdict
from tfjob.cli.terminal.result import ending
from tfjob.jobs.backend import Record

CASES = {
    "succeeded": (
        TFJobStatus(state="Succeeded", message="worker-0 exited 0", restarts=1),
        "1 restart",
    ),
    "failed, with a verdict": (
        TFJobStatus(state="Failed", failure=Verdict(replica="worker-0", message="worker-0 exited 3")),
        "exited 3",
    ),
    "failed, with advice": (
        TFJobStatus(
            state="Failed",
            failure=Verdict(
                replica="worker-0",
                message="worker-0 exited 1",
                advice="It needs this. Do that.",
                last_lines=["KeyError"],
            ),
        ),
        "advice: It needs this. Do that.",
    ),
    "failed, without a verdict": (
        TFJobStatus(state="Failed", reason="InvalidTFJob", message="it has no replicas"),
        "InvalidTFJob",
    ),
    "failed, without a reason": (TFJobStatus(state="Failed"), "mnist"),
    "stopped": (
        TFJobStatus(state="Suspended", reason="Stopped"),
        "tfjob resume mnist",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_ends_with_what_became_of_it(case: str, wording: Wording) -> None:
    status, keyword = CASES[case]
    made = job("mnist", worker=1, status=replace(status, completion_time=at(5)))
    record = Record(made, "mnist.1", status.state, status.reason, created=T0)
    shown = click.unstyle(ending(record))
    assert keyword in shown
    wording(shown)
