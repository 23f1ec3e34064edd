"""Which events and states are worth showing to users. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from tfjob.api.objects import own_claim_name
from tfjob.api.types import TFJobStatus
from tfjob.controller.actions import LOG_LOST, Event, RecordedEvent
from tfjob.jobs.backend import Record, Replica
from tfjob.jobs.report import age
from tfjob.plan.events import CRASH_LOOP, EVALUATING, RESTARTED, STARTING
from tfjob.plan.policy.cleanup import NONE

TOLD = ("TFJob", "ExitedWithCode", "SetPodTemplateRestartPolicy", "SuccessfulCreate", "SuccessfulDelete", LOG_LOST)
"""Prefixes of the reasons of events that repeat the state, the verdict or the replicas."""
TOLD_BY_RUN = (
    "SuccessfulCreate",
    "SuccessfulDelete",
    "ExitedWithCode",
    "TFJobSucceeded",
    "TFJobFailed",
    "TFJobSuspend",
    "BackOff",
)
"""Prefixes of the reasons of events that repeat other lines of an attached run."""
TOLD_STATES = ("", "Restarting", "Succeeded", "Failed")
"""States that repeat events, or the last line of an attached run."""
TOLD_REASONS = (
    ("Pending", STARTING),
    ("Pending", "ReplicaSetUpdated"),
    ("Running", STARTING),
    ("Running", EVALUATING),
    ("Running", CRASH_LOOP),
    ("Running", RESTARTED),
)
MOST = 5
LONGEST = 300


def is_well(record: Record) -> bool:
    ready, _, asked = record.status.ready.partition("/")
    return record.state == "Succeeded" or (record.state == "Running" and ready == asked)


def is_news(event: Event) -> bool:
    """Return whether an attached run shows an event, because no other line has its content."""
    return not event.reason.startswith(TOLD_BY_RUN)


def is_news_state(status: TFJobStatus) -> bool:
    """Return whether an attached run shows a line for this state, because no other line has its content."""
    return status.state not in TOLD_STATES and (status.state, status.reason) not in TOLD_REASONS


def own_claim(record: Record, storage: str) -> str:
    """Return the claim that tfjob created for the storage of a job; users may not know about it."""
    own = own_claim_name(record.name)
    return own if storage.rpartition("/")[2] == own else ""


def left_running(record: Record, replicas: Iterable[Replica]) -> int:
    keeps = record.is_finished and record.job.spec.run_policy.clean_pod_policy == NONE
    return sum(replica.phase == "Running" for replica in replicas) if keeps else 0


def lost_output(record: Record, replicas: Iterable[Replica]) -> list[str]:
    """Return a line for each replica of which output could not be written."""
    return [
        f"{replica.name}: {replica.log_lost:,} bytes of its log were lost, because writing to {record.folder} failed;"
        " is the disk full?"
        for replica in replicas
        if replica.log_lost
    ]


def recent_warnings(events: Iterable[RecordedEvent], since: datetime | None) -> list[RecordedEvent]:
    """Return the important warnings of the present attempt, one per kind, the newest last."""
    found: dict[tuple[str, str], RecordedEvent] = {}
    for event in sorted(events, key=lambda event: event.last):
        if event.warning and not event.reason.startswith(TOLD) and (since is None or event.last >= since):
            # One is enough for replicas that wait for the same thing.
            text = event.message.partition(": ")[2] or event.message
            found.pop((event.reason, text), None)
            found[event.reason, text] = event
    return list(found.values())[-MOST:]


def format_events(events: Iterable[RecordedEvent], now: datetime) -> list[str]:
    return [
        f"  event      {age(event.last, now)} ago, {event.reason}: {_short(event.message)}"
        + (f" (x{event.count})" if event.count > 1 else "")
        for event in events
    ]


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."
