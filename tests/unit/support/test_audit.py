"""The reading of the audit log: it must see a leader that writes too late, or its silence proves nothing."""

from __future__ import annotations

from typing import Any

import pytest

from support.audit import accepted_too_late, take_over

OLD, NEW = "old", "new"


def write(user: str, begun: int, ended: int = 0, code: int = 200, resource: str = "pods") -> dict[str, Any]:
    """An entry of the log, with its seconds."""
    return {
        "user": {"username": "admin"},
        "impersonatedUser": {"username": user},
        "objectRef": {"resource": resource},
        "responseStatus": {"code": code},
        "requestReceivedTimestamp": f"2026-01-01T00:00:{begun:02}.000000Z",
        "stageTimestamp": f"2026-01-01T00:00:{ended or begun:02}.500000Z",
    }


TAKEN = write(NEW, 20, resource="leases")


@pytest.mark.parametrize(
    ("late", "entry"),
    [
        (True, write(OLD, 21)),
        (True, write(OLD, 21, code=201)),
        (True, write(OLD, 19, ended=21)),
        (True, write(OLD, 21, resource="leases")),
        (True, write(OLD, 21, resource="events")),
        (False, write(OLD, 19)),
        (False, write(OLD, 21, code=409)),
        (False, write(OLD, 21, code=404)),
        (False, write(NEW, 21)),
        (False, write("another", 21)),
    ],
    ids=["after", "creation", "overlaps", "renewal", "event", "before", "refused", "not found", "new", "another"],
)
def test_a_write_of_the_old_leader_that_is_accepted_after_the_take_over_is_found(
    late: bool, entry: dict[str, Any]
) -> None:
    assert accepted_too_late(OLD, NEW, [entry, TAKEN]) == ([entry] if late else [])
    assert accepted_too_late(OLD, NEW, [TAKEN, entry]) == ([entry] if late else [])


def test_only_a_lease_that_was_given_is_a_take_over() -> None:
    attempt, pod = write(NEW, 5, code=409, resource="leases"), write(NEW, 6)
    assert take_over(NEW, [attempt, pod, TAKEN]) == TAKEN
    with pytest.raises(AssertionError, match="new never led"):
        accepted_too_late(OLD, NEW, [attempt, pod, write(OLD, 21)])
