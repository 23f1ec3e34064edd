"""The last words about a run."""

from __future__ import annotations

import click
import pytest
from msgspec.structs import replace

from plan.builders import T0, at, job
from tfjob.api.types import TFJobStatus, Verdict
from tfjob.jobs.backend import Record
from tfjob.jobs.report import ending

CASES = {
    "succeeded": (
        TFJobStatus(state="Succeeded", message="worker-0 exited 0", restarts=1),
        "mnist succeeded in 5.0s, 1 restart: worker-0 exited 0",
    ),
    "failed, with a verdict": (
        TFJobStatus(state="Failed", failure=Verdict(replica="worker-0", message="worker-0 exited 3")),
        "mnist failed after 5.0s: worker-0 exited 3",
    ),
    "failed, without one": (
        TFJobStatus(state="Failed", reason="InvalidTFJob", message="it has no replicas"),
        "mnist failed after 5.0s: InvalidTFJob: it has no replicas",
    ),
    "failed, and nobody knows why": (TFJobStatus(state="Failed"), "mnist failed after 5.0s: nobody said why"),
    "stopped": (
        TFJobStatus(state="Suspended", reason="Stopped"),
        "mnist is Suspended (Stopped); continue it with: tfjob resume mnist",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_ends_with_what_became_of_it(case: str) -> None:
    status, words = CASES[case]
    made = job("mnist", worker=1, status=replace(status, completion_time=at(5)))
    record = Record(made, "mnist.1", status.state, status.reason, created=T0)
    assert click.unstyle(ending(record)) == words
