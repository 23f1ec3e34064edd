"""How long the product waits for what takes seconds or minutes, in one object that is passed in from the top.

A test runs the same code with other lengths. For a process that a test starts, the environment variable
`TFJOB_TEST_DURATIONS` holds some of them as JSON, in seconds: `{"settle_gang": 1}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import msgspec

VARIABLE = "TFJOB_TEST_DURATIONS"


def _seconds(*lengths: float) -> tuple[timedelta, ...]:
    return tuple(timedelta(seconds=length) for length in lengths)


class Durations(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every length that a test may want to shorten; pauses below half a second are constants where they are used."""

    repeat_deletion: tuple[timedelta, ...] = _seconds(30, 60, 120, 240, 300)
    """Until the deletion of a pod that should be gone is repeated: after it was due, then after each repetition."""


def durations_from(environ: Mapping[str, str]) -> Durations:
    """Return the usual lengths, apart from those that a test has set in the environment."""
    text = environ.get(VARIABLE)
    return msgspec.json.decode(text, type=Durations, strict=False) if text else Durations()
