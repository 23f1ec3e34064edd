"""When the probes of a container are due and what their results mean: the kubelet's rules, as pure functions."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .pod_spec import Probe, ProbeKind

    Tally = tuple[bool | None, bool, int]
    """A probe's verdict (None before the first one), its last result, and how often in a row that was its result."""

NEW: Tally = (None, False, 0)
"""The tally of a probe that has not run since the container started."""


def count(tally: Tally, succeeded: bool, probe: Probe) -> Tally:
    """Add a result: the verdict changes once the result has repeated as often as its threshold says."""
    verdict, last, in_a_row = tally
    in_a_row = in_a_row + 1 if last == succeeded else 1
    threshold = probe["successThreshold"] if succeeded else probe["failureThreshold"]
    return (succeeded if in_a_row >= threshold else verdict, succeeded, in_a_row)


def first_after(kind: ProbeKind, probe: Probe) -> float:
    """Seconds from the container's start to the first run of a probe.

    A kubelet runs probes at multiples of their period and skips those within the initial delay. Only a readiness probe
    runs at once, so that a liveness probe with a threshold of 1 does not kill a container that just starts.
    """
    if kind == "readiness":
        return probe["initialDelay"]
    return probe["period"] * max(1, math.ceil(probe["initialDelay"] / probe["period"]))


def next_at(began: float, ended: float, probe: Probe) -> float:
    """The time of the next run after one that `began` and `ended`: runs of a probe never overlap."""
    return max(began + probe["period"], ended)


def may_run(kind: ProbeKind, startup: bool | None) -> bool:
    """Whether a probe runs, by the verdict of the startup probe (True if there is none)."""
    return (kind == "startup") == (startup is not True)


def fails_container(kind: ProbeKind, tally: Tally) -> bool:
    """Whether the container must be killed; a failed readiness probe only makes it unready."""
    return kind != "readiness" and tally[0] is False
