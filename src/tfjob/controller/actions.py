"""What a plan asks the loop to do, after the status is written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tfjob.api.objects import Object

LOG_LOST = "LogLost"
"""The reason of an event about output of a pod that could not be written to its log."""


@dataclass(frozen=True)
class Create:
    """Create a child. If it exists and belongs to the same owner, that is fine."""

    child: Object


@dataclass(frozen=True)
class Update:
    """Write the spec of a child; it carries the name, uid and version that were seen."""

    child: Object


@dataclass(frozen=True)
class Delete:
    """Delete a child, if it is still the one that was seen; `overdue` is how late a repeated deletion is."""

    kind: str
    name: str
    uid: str
    overdue: timedelta | None = None


@dataclass(frozen=True)
class RemoveFinalizer:
    """Let the deletion of the owner continue: what this finalizer protects is gone."""

    finalizer: str


@dataclass(frozen=True)
class DeleteOwner:
    """Delete the owner itself: its time to live is over."""


Action = Create | Update | Delete | RemoveFinalizer | DeleteOwner


@dataclass(frozen=True)
class Event:
    """An event for users: Normal or Warning, a reason in CamelCase, a sentence."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True)
class RecordedEvent:
    """An event as it was recorded; equal events in a row are counted."""

    time: datetime
    last: datetime
    count: int
    warning: bool
    reason: str
    message: str
