"""The errors that a user can act on; any other exception is a bug in tfjob."""

from __future__ import annotations

from collections.abc import Sequence


class UserError(Exception):
    """An error for the user: `message` says what is wrong and where, `hint` what to do about it.

    `advice` is the default hint of a class of errors, `warnings` are further findings, and with `is_transient` the same
    request may succeed later.
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
    """The request contradicts itself, or names something that does not exist."""


class NotFound(UserError):
    """No job, replica, container or claim has this name."""
