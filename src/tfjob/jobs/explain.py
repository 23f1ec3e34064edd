"""Why a job is not where it should be: the events that say more than its state and its verdict; pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from tfjob.api.types import TFJobStatus
from tfjob.controller.actions import Event, RecordedEvent
from tfjob.jobs.backend import Record, Replica
from tfjob.jobs.report import age
from tfjob.plan.build.job_storage import claim_name
from tfjob.plan.events import CRASH_LOOP, RESTARTED, STARTING
from tfjob.plan.policy.cleanup import NONE

TOLD = ("TFJob", "ExitedWithCode", "SetPodTemplateRestartPolicy", "SuccessfulCreate", "SuccessfulDelete")
"""Events that the state, the verdict or the replicas tell already, by the beginning of their reason."""
TOLD_BY_RUN = (
    "SuccessfulCreate",
    "SuccessfulDelete",
    "ExitedWithCode",
    "TFJobSucceeded",
    "TFJobFailed",
    "TFJobSuspend",
    "BackOff",
)
"""Events that the lines of an attached run tell already, by the beginning of their reason."""
TOLD_STATES = ("", "Restarting", "Succeeded", "Failed")
"""States that events, or the final line of an attached run, tell."""
TOLD_REASONS = (
    ("Pending", STARTING),
    ("Pending", "ReplicaSetUpdated"),
    ("Running", STARTING),
    ("Running", CRASH_LOOP),
    ("Running", RESTARTED),
)
MOST = 5
LONGEST = 300


def is_well(record: Record) -> bool:
    """Whether nobody will ask why."""
    ready, _, asked = record.status.ready.partition("/")
    return record.state == "Succeeded" or (record.state == "Running" and ready == asked)


def is_news(event: Event) -> bool:
    """Return whether an attached run shows an event: its lines and states do not tell it already."""
    return not event.reason.startswith(TOLD_BY_RUN)


def is_news_state(status: TFJobStatus) -> bool:
    """Return whether an attached run shows a line for this state: events and its final line do not tell it."""
    return status.state not in TOLD_STATES and (status.state, status.reason) not in TOLD_REASONS


def own_claim(record: Record, storage: str) -> str:
    """Return the claim that a job got without asking for one, if that is its storage: users may not know it."""
    own = claim_name(record.name)
    return own if storage.rpartition("/")[2] == own else ""


def left_running(record: Record, replicas: Iterable[Replica]) -> int:
    """Return how many replicas an ended job keeps because of `cleanPodPolicy: None`."""
    keeps = record.is_finished and record.job.spec.run_policy.clean_pod_policy == NONE
    return sum(replica.phase == "Running" for replica in replicas) if keeps else 0


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
