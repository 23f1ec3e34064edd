from __future__ import annotations

import msgspec
import pytest

from support.golden import Wording
from support.plan.builders import T0, job, pod, task, template
from tfjob.api.types import Verdict
from tfjob.plan.facts.task_state import End
from tfjob.plan.policy.verdict import memory_advice, verdict

RUNC = 'failed to create task: runc create failed: unable to start container process: exec: "x": not found: unknown'


@pytest.mark.parametrize(
    ("end", "signal"),
    [
        (End(T0, 0, reason="Completed"), ""),
        (End(T0, 3, reason="Error"), ""),
        (End(T0, 137, reason="Error"), "SIGKILL"),
        (End(T0, 137, reason="OOMKilled"), "SIGKILL"),
        (End(T0, 134, signal=6, reason="Error"), "SIGABRT"),
        (End(T0, 255, reason="Error"), ""),
        (End(T0, 128, reason="StartError", message="no python\n"), ""),
        (End(T0, 128, reason="StartError", message=RUNC), ""),
        (End(T0, reason="PodLost", message="gone", infrastructure=True), ""),
        (End(T0, reason="Evicted", infrastructure=True), ""),
    ],
)
def test_an_end_in_one_sentence(end: End, signal: str, wording: Wording) -> None:
    said = verdict(task("worker-1"), 2, end)
    assert (said.signal, said.replica, said.attempt) == (signal, "worker-1", 2)
    wording(said.message)


def test_lost_pods_have_no_last_lines_and_failed_ones_do() -> None:
    assert verdict(task("worker-0"), 1, End(T0, reason="PodLost", message="gone")).last_lines == []
    assert verdict(task("worker-0"), 1, End(T0, 1, message="ValueError: no")).last_lines == ["ValueError: no"]


def test_a_known_error_has_advice_and_an_older_status_has_none() -> None:
    known = verdict(task("worker-0"), 1, End(T0, 1, message="KeyError: 'TF_CONFIG'"))
    assert "TF_CONFIG" in known.advice
    assert verdict(task("worker-0"), 1, End(T0, reason="PodLost", message="KeyError: 'TF_CONFIG'")).advice == ""
    assert msgspec.json.decode(b'{"replica": "worker-0", "exitCode": 1}', type=Verdict).advice == ""


@pytest.mark.parametrize(
    ("repeated", "peak", "keyword"),
    [
        (True, "1073741824", "1024 MiB"),
        (False, "", "1Gi"),
        (False, "unknown", "1Gi"),
    ],
)
def test_an_oom_verdict_says_peak_and_limit(repeated: bool, peak: str, keyword: str, wording: Wording) -> None:
    owner = job(worker=1, pod_template=template(resources={"limits": {"memory": "1Gi"}}))
    pods = [pod(owner, "worker-0").oom().annotated(tfjob__peak_memory=peak).pod]
    cause = Verdict(replica="worker-0", reason="OOMKilled", message="killed")
    message = memory_advice(owner, pods, cause, repeated=repeated).message
    assert keyword in message
    assert "resources.limits.memory" in message
    wording(message)


def test_other_verdicts_get_no_advice() -> None:
    owner = job(worker=1)
    cause = Verdict(replica="worker-0", reason="Error", message="exited")
    assert memory_advice(owner, [pod(owner, "worker-0").pod], cause, repeated=True) == cause
