"""What the loop tells whoever measures it, so that it need not know how: the queue's load and how passes end."""

from __future__ import annotations

from typing import Protocol

from tfjob.api.types import TFJobStatus
from tfjob.controller.cluster import Key

SUCCESS, REQUEUE_AFTER, ERROR = "success", "requeue_after", "error"
"""How a pass ends, in controller-runtime's words."""


class Observer(Protocol):
    """Counts and times; it is called often, so it must be quick and may not raise."""

    def added(self, depth: int) -> None:
        """A key was added to the queue, which has `depth` keys now."""

    def taken(self, depth: int, waited: float) -> None:
        """A worker took a key that had waited for so many seconds."""

    def retried(self) -> None:
        """A key was put back because its pass failed."""

    def finished(self, seconds: float) -> None:
        """A worker is done with a key after so many seconds."""

    def reconciled(self, result: str, seconds: float) -> None:
        """A pass ended: success, requeue_after or error."""

    def status_changed(self, key: Key, before: TFJobStatus, after: TFJobStatus) -> None:
        """A status was written."""

    def job_deleted(self, key: Key) -> None:
        """A finished job was removed because its time to live was over."""


class Unobserved:
    """Nobody measures."""

    def added(self, depth: int) -> None:
        """Not counted."""

    def taken(self, depth: int, waited: float) -> None:
        """Not counted."""

    def retried(self) -> None:
        """Not counted."""

    def finished(self, seconds: float) -> None:
        """Not counted."""

    def reconciled(self, result: str, seconds: float) -> None:
        """Not counted."""

    def status_changed(self, key: Key, before: TFJobStatus, after: TFJobStatus) -> None:
        """Not counted."""

    def job_deleted(self, key: Key) -> None:
        """Not counted."""
