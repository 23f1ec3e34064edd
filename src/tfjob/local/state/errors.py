"""The error of this machine: a message that names the problem and its place, and a hint that says what to do."""

from __future__ import annotations

from tfjob.errors import UserError


class Refusal(UserError):
    """A request that this machine cannot fulfill."""
