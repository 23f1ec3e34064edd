"""What can be asked of a job that is over: each function makes the question that a conformance case asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.golden import check_golden_section

MESSAGES = Path(__file__).parents[1] / "data" / "conformance" / "golden" / "succeeded.txt"

Status = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What a case left: the job as `status -o json` shows it, and the lines of each replica, newest attempt last.

    A job that was refused, or is gone, is an empty one; `output` is all that the tool said when it was started.
    """

    exit_code: int
    job: dict[str, Any]
    lines: dict[str, list[str]]
    seconds: float
    output: str

    @property
    def status(self) -> Status:
        return self.job["status"]  # type: ignore[no-any-return]


Check = Callable[[Outcome], None]


def succeeded(restarts: int = 0) -> Check:
    """With the message that the golden file has for a job of that name."""

    def check(outcome: Outcome) -> None:
        assert outcome.exit_code == 0, outcome
        assert outcome.job["state"] == "Succeeded"
        assert outcome.job["restarts"] == restarts, outcome.job
        assert outcome.status["conditions"][-1]["type"] == "Succeeded"
        check_golden_section(MESSAGES, outcome.job["name"], outcome.job["message"])

    return check


def failed(
    replica_name: str,
    *exit_codes: int | None,
    signal: str = "",
    reason: str = "",
    last: str = "",
    restarts: int | None = None,
) -> Check:
    """By the verdict; several exit codes where runtimes differ."""

    def check(outcome: Outcome) -> None:
        assert outcome.exit_code == 1, outcome
        failure = outcome.job["failure"]
        assert failure.get("replica", "") == replica_name, failure
        assert failure.get("exitCode") in exit_codes, failure
        assert failure.get("signal", "") == signal, failure
        if reason:
            assert reason in (failure["reason"], outcome.job["reason"]), outcome.job
        if last:
            assert failure["lastLines"][-1] == last, failure
        if restarts is not None:
            assert outcome.job["restarts"] == restarts, outcome.job

    return check


def refused(*words: str) -> Check:
    """Before anything is made."""

    def check(outcome: Outcome) -> None:
        assert outcome.exit_code == 2, outcome
        assert outcome.job == {}
        for word in words:
            assert word in outcome.output, outcome.output

    return check


def gone(outcome: Outcome) -> None:
    """There is no job of that name any more; this machine keeps a record."""
    assert not outcome.job.get("current"), outcome.job


def both(*checks: Check) -> Check:
    def check(outcome: Outcome) -> None:
        for one in checks:
            one(outcome)

    return check


def said(replica_name: str, line: str) -> Check:
    def check(outcome: Outcome) -> None:
        assert line in outcome.lines.get(replica_name, []), outcome.lines

    return check


def greeted(outcome: Outcome) -> None:
    """A variable made of others names the pod and the namespace."""
    assert f"hello files-worker-0 in {outcome.job['namespace']}" in outcome.lines["worker-0"], outcome.lines


def sooner_than(seconds: float) -> Check:
    def check(outcome: Outcome) -> None:
        assert outcome.seconds < seconds, f"took {outcome.seconds:.1f} s"

    return check


def task_restarts(**expected: int) -> Check:
    def check(outcome: Outcome) -> None:
        wanted = {name.replace("_", "-"): count for name, count in expected.items()}
        assert outcome.status.get("taskRestarts", {}) == wanted, outcome.status

    return check


def attempts(**expected: int) -> Check:
    """How often each replica ran, by a new pod or in place."""

    def check(outcome: Outcome) -> None:
        wanted = {name.replace("_", "-"): count for name, count in expected.items()}
        assert {one["name"]: one["attempts"] for one in outcome.job["replicas"]} == wanted, outcome.job

    return check


def bounded(outcome: Outcome) -> None:
    assert outcome.job["reason"] == "BackoffLimitExceeded", outcome.job
    assert outcome.job["restarts"] == 1, outcome.job
