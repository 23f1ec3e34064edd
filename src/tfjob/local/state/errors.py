"""The one way in which this machine says no: a sentence that tells what and where, and a hint that tells what to do."""

from __future__ import annotations

from tfjob.errors import UserError


class Refusal(UserError):
    """Something asked for cannot be done here."""
