"""How long to wait before the next try, longer each time; the numbers are client-go's."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

FIRST, LAST, RESET = 0.8, 30.0, 120.0
"""Seconds: the first delay, the longest one, and how long it must go well for the first one to come again."""


class Backoff:
    """Delays that double from `first` to `last`, each with some chance in it, so that many clients spread out."""

    def __init__(self, first: float = FIRST, last: float = LAST, clock: Callable[[], float] = time.monotonic) -> None:
        self._first = first
        self._longest = last
        self._clock = clock
        self._next = first
        self._asked = clock()

    def delay(self) -> float:
        now = self._clock()
        if now - self._asked > RESET:
            self._next = self._first
        delay = min(self._next * random.uniform(1, 2), self._longest)  # noqa: S311 (no secret)
        self._next = min(self._next * 2, self._longest)
        self._asked = now + delay
        return delay
