"""The state of replicas, from pods, traces and the job's status."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tfjob.api.names import REPLICA_INDEX_LABEL, REPLICA_TYPE_LABEL
from tfjob.api.objects import Pod, PodStatus
from tfjob.api.types import ReplicaSpec, TFJob, TFJobSpec, TFJobStatus
from tfjob.jobs.replicas import Trace, first_replica, replicas

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def job(**status: Any) -> TFJob:
    spec = TFJobSpec(tf_replica_specs={"Worker": ReplicaSpec(replicas=1)})
    return TFJob(spec=spec, status=TFJobStatus(**status))


def status(phase: str, **state: Any) -> PodStatus:
    containers = [{"name": "tensorflow", "state": state}] if state else []
    return msgspec.convert({"phase": phase, "containerStatuses": containers}, PodStatus)


def pod(state: PodStatus, **metadata: Any) -> Pod:
    labels = {REPLICA_TYPE_LABEL: "worker", REPLICA_INDEX_LABEL: "0"}
    return msgspec.convert({"metadata": {"labels": labels, **metadata}, "status": msgspec.to_builtins(state)}, Pod)


RUNNING = status("Running", running={"startedAt": NOW.isoformat()})
FAILED = status("Failed", terminated={"exitCode": 143})
CRASHED = status("Running", waiting={"reason": "CrashLoopBackOff"})


@pytest.mark.parametrize(
    ("pods", "traces", "remembered", "phase", "shown", "exit_code"),
    [
        ([pod(RUNNING)], None, {}, "Running", "", None),
        ([pod(FAILED)], None, {}, "Failed", "", 143),
        ([pod(CRASHED)], None, {}, "Running", "CrashLoopBackOff", None),
        ([pod(RUNNING, deletionTimestamp=NOW.isoformat())], None, {}, "Terminating", "", None),
        ([pod(PodStatus())], None, {}, "Pending", "", None),
        ([], None, {}, "-", "", None),
        ([], None, {"completed_indexes": {"Worker": "0"}}, "Succeeded", "", 0),
        ([], Trace(FAILED, 2), {}, "Failed", "", 143),
        ([], Trace(FAILED, 2, stopped=True), {}, "Failed", "Stopped", 143),
        ([pod(RUNNING)], Trace(CRASHED, 2), {}, "Running", "CrashLoopBackOff", None),
    ],
)
def test_the_newest_status_of_a_replica_counts(
    pods: list[Pod], traces: Trace | None, remembered: dict[str, Any], phase: str, shown: str, exit_code: int | None
) -> None:
    (found,) = replicas(job(**remembered), pods, None if traces is None else {"worker-0": traces})
    assert (found.phase, found.shown, found.exit_code) == (phase, shown, exit_code)


def test_a_replica_that_has_ended_has_no_process() -> None:
    for state, pid in ((RUNNING, 42), (FAILED, None)):
        (found,) = replicas(job(), [], {"worker-0": Trace(state, 3, start="warm", pid=42)})
        assert (found.attempts, found.start, found.pid) == (3, "warm", pid)


@pytest.mark.parametrize(
    ("running", "first"),
    [
        (["worker-10", "worker-2", "chief-0", "evaluator-0"], "chief-0"),
        (["worker-10", "worker-2", "evaluator-0"], "worker-2"),
        (["ps-0", "evaluator-0"], "evaluator-0"),
        (["mnist-worker-0-x7k2p"], "mnist-worker-0-x7k2p"),
    ],
)
def test_the_first_replica_is_the_chief_or_the_first_worker(running: list[str], first: str) -> None:
    counts = {"Worker": 11, "Chief": 1, "PS": 1, "Evaluator": 1}
    spec = TFJobSpec(tf_replica_specs={name: ReplicaSpec(replicas=count) for name, count in counts.items()})
    assert first_replica(TFJob(spec=spec), running) == first
