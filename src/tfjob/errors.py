"""The errors that a user can do something about; any other exception is a fault of tfjob itself."""

from __future__ import annotations

from collections.abc import Sequence


class UserError(Exception):
    """Something that cannot be done: `message` says what and where, `hint` what to do about it.

    `advice` is the hint for errors of a kind that have none, `warnings` is what else was found, and `is_transient` says
    that the same request may succeed later.
    """

    advice = ""
    warnings: Sequence[object] = ()
    is_transient = False

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class InvalidRequest(UserError):
    """The request contradicts itself, or this state or target does not allow it."""


class NotFound(UserError):
    """No job, replica, container or claim has this name."""
