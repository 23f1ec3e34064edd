"""Conditions as training-operator v1.9 writes them: types, reasons, order, and which condition replaces which."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from tfjob.api.types import Condition, TFJobStatus

CREATED, RUNNING, RESTARTING = "Created", "Running", "Restarting"
SUSPENDED, SUCCEEDED, FAILED = "Suspended", "Succeeded", "Failed"


def is_true(conditions: Sequence[Condition], kind: str) -> bool:
    return any(condition.type == kind and condition.status == "True" for condition in conditions)


def is_finished(status: TFJobStatus) -> bool:
    return is_true(status.conditions, SUCCEEDED) or is_true(status.conditions, FAILED)


def with_condition(
    conditions: Sequence[Condition], kind: str, now: datetime, message: str, *, status: str = "True", reason: str = ""
) -> list[Condition]:
    """Return the list with a condition set; unchanged if it has that status and reason already.

    Running and Restarting replace each other. Succeeded and Failed set Running to False. A changed condition moves to
    the end, so that the last one is the latest.
    """
    reason = reason or f"TFJob{kind}"
    present = next((condition for condition in conditions if condition.type == kind), None)
    if present and (present.status, present.reason) == (status, reason):
        return list(conditions)
    since = present.last_transition_time if present and present.status == status else now
    news = Condition(
        type=kind, status=status, reason=reason, message=message, last_update_time=now, last_transition_time=since
    )
    dropped = {RUNNING: RESTARTING, RESTARTING: RUNNING}.get(kind) if status == "True" else None
    kept = [condition for condition in conditions if condition.type not in (kind, dropped)]
    for index, condition in enumerate(kept):
        if kind in (SUCCEEDED, FAILED) and condition.type == RUNNING and condition.status == "True":
            kept[index] = replace(condition, status="False", last_update_time=now, last_transition_time=now)
    return [*kept, news]
