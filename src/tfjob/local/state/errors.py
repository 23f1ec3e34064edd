"""The one way in which this machine says no: a sentence that tells what and where, and a hint that tells what to do."""

from __future__ import annotations


class Refusal(Exception):
    """Something asked for cannot be done here; `message` says what and where, `hint` says what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message
