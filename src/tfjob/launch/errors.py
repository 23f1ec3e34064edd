"""Why nothing can be started from what was asked for."""

from __future__ import annotations


class InvalidRequest(Exception):
    """What was asked for contradicts itself or does not exist; `hint` says what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
