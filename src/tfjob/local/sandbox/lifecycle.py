"""What becomes of a container that ended and of its pod: the kubelet's rules, as pure functions."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .pod_spec import Backoff


def exit_code(wait_status: int) -> int:
    """The code that a container runtime reports: 128 + the signal for a killed process."""
    number = wait_status & 0x7F
    return 128 + number if number else (wait_status >> 8) & 0xFF


def exit_signal(wait_status: int) -> int:
    """The signal that ended the process, 0 for none."""
    return wait_status & 0x7F


def restarts(policy: str, code: int, *, unhealthy: bool = False) -> bool:
    """Whether a container that ended with `code` is started again in place; `unhealthy` if a probe ended it."""
    return policy == "Always" or (policy == "OnFailure" and (code != 0 or unhealthy))


def delay(restarts_in_a_row: int, backoff: Backoff) -> float:
    """Seconds to wait before the next restart: none for the first, then doubled up to the limit."""
    if restarts_in_a_row == 0:
        return 0.0
    return float(min(backoff["initial"] * 2 ** min(restarts_in_a_row - 1, 30), backoff["max"]))


def termination_reason(code: int, *, started: bool, out_of_memory: bool) -> str:
    """The `reason` of a terminated state."""
    if not started:
        return "StartError"
    if code == 0:
        return "Completed"
    # A killed child raises the counter too while its parent goes on, so the code decides as well.
    return "OOMKilled" if out_of_memory and code == 137 else "Error"


def phase(init: Iterable[dict[str, Any]], containers: Iterable[dict[str, Any]], *, done: bool) -> str:
    """The pod's phase, from the statuses of its init containers (sidecars left out) and of its containers."""
    init, containers = list(init), list(containers)
    if done:
        return "Succeeded" if all(_succeeded(status) for status in (*init, *containers)) else "Failed"
    if not all(_succeeded(status) for status in init):
        return "Pending"
    return "Running" if all(_has_started(status) for status in containers) else "Pending"


def _succeeded(status: dict[str, Any]) -> bool:
    terminated = status["state"].get("terminated")
    return terminated is not None and terminated["exitCode"] == 0


def _has_started(status: dict[str, Any]) -> bool:
    return "waiting" not in status["state"] or "terminated" in status["lastState"]
