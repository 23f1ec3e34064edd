"""The kubelet's rules about ends, restarts, phases and probes."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tfjob.local.sandbox import lifecycle
from tfjob.local.sandbox.pod_spec import Probe, ProbeKind

KUBELET = {"initial": 10, "max": 300, "reset": 600}


@pytest.mark.parametrize(
    ("status", "code", "number"),
    [(0, 0, 0), (3 << 8, 3, 0), (255 << 8, 255, 0), (signal.SIGKILL, 137, 9), (signal.SIGSEGV | 0x80, 139, 11)],
)
def test_a_wait_status_as_a_container_runtime_reports_it(status: int, code: int, number: int) -> None:
    assert (lifecycle.exit_code(status), lifecycle.exit_signal(status)) == (code, number)


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        ("Never", 0, False),
        ("Never", 1, False),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("Always", 0, True),
        ("Always", 1, True),
    ],
)
def test_restart_policies(policy: str, code: int, again: bool) -> None:
    assert lifecycle.restarts(policy, code) is again
    assert lifecycle.restarts(policy, code, unhealthy=True) is (policy != "Never")


def test_the_back_off_is_the_kubelets() -> None:
    assert [lifecycle.delay(count, KUBELET) for count in range(8)] == [0, 10, 20, 40, 80, 160, 300, 300]  # type: ignore[arg-type]
    assert lifecycle.delay(10_000, KUBELET) == 300  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "started", "out_of_memory", "reason"),
    [
        (0, True, False, "Completed"),
        (0, True, True, "Completed"),
        (1, True, True, "Error"),
        (137, True, True, "OOMKilled"),
        (137, True, False, "Error"),
        (127, False, False, "StartError"),
    ],
)
def test_termination_reasons(code: int, started: bool, out_of_memory: bool, reason: str) -> None:
    assert lifecycle.termination_reason(code, started=started, out_of_memory=out_of_memory) == reason


def waiting(before: int | None = None) -> dict[str, Any]:
    return {"state": {"waiting": {}}, "lastState": {} if before is None else ended(before)["state"]}


def running() -> dict[str, Any]:
    return {"state": {"running": {}}, "lastState": {}}


def ended(code: int) -> dict[str, Any]:
    return {"state": {"terminated": {"exitCode": code}}, "lastState": {}}


@pytest.mark.parametrize(
    ("init", "containers", "done", "phase"),
    [
        ([], [waiting()], False, "Pending"),
        ([], [running()], False, "Running"),
        ([], [running(), waiting()], False, "Pending"),
        ([], [waiting(before=1)], False, "Running"),
        ([], [ended(0), running()], False, "Running"),
        ([running()], [waiting()], False, "Pending"),
        ([ended(0)], [running()], False, "Running"),
        ([waiting(before=1)], [waiting()], False, "Pending"),
        ([], [ended(0), ended(0)], True, "Succeeded"),
        ([], [ended(0), ended(2)], True, "Failed"),
        ([ended(1)], [waiting()], True, "Failed"),
        ([ended(0)], [ended(0)], True, "Succeeded"),
    ],
)
def test_phases(init: list[dict[str, Any]], containers: list[dict[str, Any]], done: bool, phase: str) -> None:
    assert lifecycle.phase(init, containers, done=done) == phase


def probe(**changes: Any) -> Probe:
    usual: Probe = {
        "initialDelay": 0,
        "period": 10,
        "timeout": 1,
        "successThreshold": 1,
        "failureThreshold": 3,
        "grace": None,
    }
    return {**usual, **changes}  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("results", "thresholds", "verdicts"),
    [
        ("+", (1, 3), "+"),
        ("---", (1, 3), "??-"),
        ("--+---", (1, 3), "??+++-"),
        ("++", (2, 1), "?+"),
        ("+-+", (2, 1), "?--"),
        ("-++", (2, 1), "--+"),
        ("+--+", (1, 3), "++++"),
        ("+---+", (1, 3), "+++-+"),
    ],
)
def test_a_verdict_changes_at_the_threshold(results: str, thresholds: tuple[int, int], verdicts: str) -> None:
    spec = probe(successThreshold=thresholds[0], failureThreshold=thresholds[1])
    tally, seen = lifecycle.NEW, ""
    for result in results:
        tally = lifecycle.count(tally, result == "+", spec)
        seen += {None: "?", True: "+", False: "-"}[tally[0]]
    assert seen == verdicts


@pytest.mark.parametrize(
    ("kind", "delay", "period", "first"),
    [
        ("readiness", 0, 10, 0),
        ("readiness", 5, 10, 5),
        ("liveness", 0, 10, 10),
        ("liveness", 5, 10, 10),
        ("liveness", 10, 10, 10),
        ("liveness", 15, 10, 20),
        ("startup", 0, 1, 1),
        ("startup", 3, 1, 3),
    ],
)
def test_the_first_run_respects_delay_and_period(kind: ProbeKind, delay: float, period: float, first: float) -> None:
    assert lifecycle.first_after(kind, probe(initialDelay=delay, period=period)) == first
