"""Callbacks of the loop for metrics: the load of its queue and the results of passes."""

from __future__ import annotations

from typing import Any

from tfjob.controller.kind import Key

SUCCESS, REQUEUE_AFTER, ERROR = "success", "requeue_after", "error"
"""How a pass ends, in controller-runtime's words."""


class Hooks:
    """Hooks that do nothing; a subclass counts. The loop calls them often: they must be quick and must not raise."""

    def added(self, depth: int) -> None:
        """A key was added to the queue, which has `depth` keys now."""

    def taken(self, depth: int, waited: float) -> None:
        """A worker took a key that had waited for `waited` seconds."""

    def retried(self) -> None:
        """A key was put back because its pass failed."""

    def finished(self, seconds: float) -> None:
        """A worker finished with a key after `seconds`."""

    def reconciled(self, key: Key, result: str, seconds: float) -> None:
        """A pass ended: success, requeue_after or error."""

    def status_changed(self, key: Key, before: Any, after: Any) -> None:
        """A status was written."""

    def owner_deleted(self, key: Key) -> None:
        """A finished owner was deleted because its time to live was over."""
