"""The kubelet's rules for terminated containers, their pods, and probes, as pure functions."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .pod_spec import Backoff, Probe, ProbeKind

    Tally = tuple[bool | None, bool, int]
    """A probe's verdict (None before the first one), its last result, and the length of its current streak."""


def exit_code(wait_status: int) -> int:
    """Return the code that a container runtime reports: 128 + the signal for a killed process."""
    number = exit_signal(wait_status)
    return 128 + number if number else (wait_status >> 8) & 0xFF


def exit_signal(wait_status: int) -> int:
    return wait_status & 0x7F


def restarts(policy: str, code: int, *, unhealthy: bool = False) -> bool:
    """Return whether a container restarts in place; `unhealthy` means that a failed probe ended it."""
    return policy == "Always" or (policy == "OnFailure" and (code != 0 or unhealthy))


def delay(restarts_in_a_row: int, backoff: Backoff) -> float:
    """Return the seconds to wait before the next restart: 0 for the first, then doubled up to the limit."""
    if restarts_in_a_row == 0:
        return 0.0
    return float(min(backoff["initial"] * 2 ** min(restarts_in_a_row - 1, 30), backoff["max"]))


def termination_reason(code: int, *, started: bool, out_of_memory: bool) -> str:
    if not started:
        return "StartError"
    if code == 0:
        return "Completed"
    # The kernel counts a killed child too, even if its parent keeps running, so the exit code must match as well.
    return "OOMKilled" if out_of_memory and code == 137 else "Error"


def phase(init: Iterable[dict[str, Any]], containers: Iterable[dict[str, Any]], *, done: bool) -> str:
    """Return the pod's phase from the statuses of its init containers (without sidecars) and of its containers."""
    init, containers = list(init), list(containers)
    if done:
        return "Succeeded" if all(_succeeded(status) for status in (*init, *containers)) else "Failed"
    if not all(_succeeded(status) for status in init):
        return "Pending"
    started = ("waiting" not in status["state"] or "terminated" in status["lastState"] for status in containers)
    return "Running" if all(started) else "Pending"


def _succeeded(status: dict[str, Any]) -> bool:
    terminated = status["state"].get("terminated")
    return terminated is not None and terminated["exitCode"] == 0


NEW: Tally = (None, False, 0)
"""The tally of a probe that has not run since the container started."""


def count(tally: Tally, succeeded: bool, probe: Probe) -> Tally:
    """Add a result; the verdict changes once the same result has been seen `threshold` times in a row."""
    verdict, last, in_a_row = tally
    in_a_row = in_a_row + 1 if last == succeeded else 1
    threshold = probe["successThreshold"] if succeeded else probe["failureThreshold"]
    return (succeeded if in_a_row >= threshold else verdict, succeeded, in_a_row)


def first_after(kind: ProbeKind, probe: Probe) -> float:
    """Return the seconds from the container's start to the first run of a probe.

    The kubelet runs probes at multiples of their period and skips those within the initial delay. Only a readiness
    probe runs immediately, so that a liveness probe with a threshold of 1 does not kill a container that just started.
    """
    if kind == "readiness":
        return probe["initialDelay"]
    return probe["period"] * max(1, math.ceil(probe["initialDelay"] / probe["period"]))
