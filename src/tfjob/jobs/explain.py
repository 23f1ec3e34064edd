"""Why a job is not where it should be: the events that say more than its state and its verdict; pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from tfjob.controller.actions import RecordedEvent
from tfjob.jobs.backend import Record
from tfjob.jobs.report import age

TOLD = ("TFJob", "ExitedWithCode", "SetPodTemplateRestartPolicy", "SuccessfulCreate", "SuccessfulDelete")
"""Events that the state, the verdict or the replicas tell already, by the beginning of their reason."""
MOST = 5
LONGEST = 300


def is_well(record: Record) -> bool:
    """Whether nobody will ask why."""
    ready, _, asked = record.job.status.ready.partition("/")
    return record.state == "Succeeded" or (record.state == "Running" and ready == asked)


def recent_warnings(events: Iterable[RecordedEvent], since: datetime | None) -> list[RecordedEvent]:
    """The warnings of the present attempt that matter, one of each kind, the newest last."""
    found: dict[tuple[str, str], RecordedEvent] = {}
    for event in sorted(events, key=lambda event: event.last):
        if event.warning and not event.reason.startswith(TOLD) and (since is None or event.last >= since):
            # Of replicas that wait for the same, one is enough.
            text = event.message.partition(": ")[2] or event.message
            found.pop((event.reason, text), None)
            found[event.reason, text] = event
    return list(found.values())[-MOST:]


def format_events(events: Iterable[RecordedEvent], now: datetime) -> list[str]:
    """Events as lines of `status`."""
    return [
        f"  event      {age(event.last, now)} ago, {event.reason}: {_short(event.message)}"
        + (f" (x{event.count})" if event.count > 1 else "")
        for event in events
    ]


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."
