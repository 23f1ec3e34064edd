"""The kubelet's rules about probes: when they run, and how their results add up."""

from __future__ import annotations

from typing import Any

import pytest

from tfjob.local.sandbox import probes
from tfjob.local.sandbox.pod_spec import Probe, ProbeKind


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
    tally, seen = probes.NEW, ""
    for result in results:
        tally = probes.count(tally, result == "+", spec)
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
    assert probes.first_after(kind, probe(initialDelay=delay, period=period)) == first


@pytest.mark.parametrize(("began", "ended", "following"), [(100, 100.5, 110), (100, 110, 110), (100, 125, 125)])
def test_runs_come_once_a_period_and_never_overlap(began: float, ended: float, following: float) -> None:
    assert probes.next_at(began, ended, probe()) == following


@pytest.mark.parametrize(
    ("startup", "running"), [(None, ["startup"]), (False, ["startup"]), (True, ["readiness", "liveness"])]
)
def test_other_probes_wait_for_the_startup_probe(startup: bool | None, running: list[str]) -> None:
    kinds: list[ProbeKind] = ["startup", "readiness", "liveness"]
    assert [kind for kind in kinds if probes.may_run(kind, startup)] == running


@pytest.mark.parametrize(
    ("kind", "verdict", "fails"),
    [
        ("liveness", None, False),
        ("liveness", True, False),
        ("liveness", False, True),
        ("startup", False, True),
        ("readiness", False, False),
    ],
)
def test_only_liveness_and_startup_fail_a_container(kind: ProbeKind, verdict: bool | None, fails: bool) -> None:
    assert probes.fails_container(kind, (verdict, False, 1)) is fails
