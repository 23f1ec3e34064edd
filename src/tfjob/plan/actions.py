"""What a plan asks the controller to do, after the status is written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tfjob.api.objects import AnyChild, PodGroup


@dataclass(frozen=True)
class Create:
    """Make a child; that it exists already is fine if it is ours."""

    child: AnyChild


@dataclass(frozen=True)
class Update:
    """Change a child to what it should be; it carries the name, uid and version that were seen."""

    child: PodGroup


@dataclass(frozen=True)
class Delete:
    """Remove a child, only if it is still the one that was seen.

    `overdue` is set if its deletion was requested before: for how long the child should have been gone.
    """

    kind: str
    name: str
    uid: str
    overdue: timedelta | None = None


@dataclass(frozen=True)
class DeleteJob:
    """Remove the finished job itself: its time to live is over."""


Action = Create | Update | Delete | DeleteJob


@dataclass(frozen=True)
class Event:
    """An event for people: Normal or Warning, a reason in CamelCase, a sentence."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True)
class RecordedEvent:
    """An event of a job as it was recorded; equal events in a row are counted."""

    time: datetime
    last: datetime
    count: int
    warning: bool
    reason: str
    message: str
