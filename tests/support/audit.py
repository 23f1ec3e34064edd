"""What the API server's audit log says about who wrote when, and who was the leader then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Write = dict[str, Any]


def writes_by(user: str, writes: Iterable[Write]) -> list[Write]:
    """What one process wrote, oldest first; `operating.known_as` gives it a name of its own."""
    return [write for write in writes if write.get("impersonatedUser", {}).get("username") == user]


def was_accepted(write: Write) -> bool:
    """Whether a write took effect."""
    return int(write["responseStatus"]["code"]) < 300


def take_over(new: str, writes: Iterable[Write]) -> Write:
    """The write by which a process began to lead; there must be one."""
    leases = (write for write in writes_by(new, writes) if write["objectRef"]["resource"] == "leases")
    taken = next((write for write in leases if was_accepted(write)), None)
    assert taken is not None, f"{new} never led"
    return taken


def accepted_too_late(old: str, new: str, writes: Iterable[Write]) -> list[Write]:
    """The writes of the old leader, renewals of its lease too, that may have taken effect after the new one led.

    Neither moment is known but as the time between request and answer: what overlaps counts as too late.
    """
    known = list(writes)
    began = take_over(new, known)["requestReceivedTimestamp"]
    return [write for write in writes_by(old, known) if was_accepted(write) and write["stageTimestamp"] > began]
