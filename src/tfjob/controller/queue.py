"""A work queue: many wake-ups of a key become one pass, a key has one worker at a time, and failures back off."""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import timedelta
from time import monotonic

from tfjob.controller.hooks import Hooks
from tfjob.controller.kind import Key
from tfjob.durations import USUAL

FIRST_DELAY = 0.005
"""Seconds to wait after the first failure; each further failure doubles them."""


class WorkQueue:
    """Keys to reconcile, each at most once; a key that is added during its pass comes back after `done`."""

    def __init__(self, hooks: Hooks | None = None, longest_retry: timedelta = USUAL.longest_retry) -> None:
        self._longest_retry = longest_retry.total_seconds()
        self._hooks = hooks or Hooks()
        self._ready: deque[Key] = deque()
        self._waiting: dict[Key, float] = {}
        self._working: dict[Key, float] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}
        self._wake = asyncio.Event()
        self._paused = False

    def add(self, key: Key) -> None:
        if key in self._waiting:
            return
        self._waiting[key] = monotonic()
        self._hooks.added(len(self._waiting))
        if key not in self._working:
            self._ready.append(key)
            self._wake.set()

    def add_after(self, key: Key, seconds: float) -> None:
        """Add a key at a later time; the earliest such request counts."""
        loop = asyncio.get_running_loop()
        due = loop.time() + max(seconds, 0)
        timer = self._timers.get(key)
        if timer is not None and timer.when() <= due:
            return
        if timer is not None:
            timer.cancel()
        self._timers[key] = loop.call_at(due, self._ring, key)

    def retry(self, key: Key) -> float:
        """Add a key again after a failure, with a growing delay; return the delay in seconds."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        self._hooks.retried()
        delay: float = min(FIRST_DELAY * 2 ** min(count, 20), self._longest_retry)
        self.add_after(key, delay)
        return delay

    def forget(self, key: Key) -> None:
        self._failures.pop(key, None)

    async def get(self) -> Key:
        """Return the next key; no other worker gets it until `done`."""
        while self._paused or not self._ready:
            self._wake.clear()
            await self._wake.wait()
        key = self._ready.popleft()
        now = monotonic()
        since = self._waiting.pop(key)
        self._working[key] = now
        self._hooks.taken(len(self._waiting), now - since)
        return key

    def done(self, key: Key) -> None:
        self._hooks.finished(monotonic() - self._working.pop(key))
        if key in self._waiting:
            self._ready.append(key)
            self._wake.set()

    def working_seconds(self) -> list[float]:
        now = monotonic()
        return [now - since for since in self._working.values()]

    def _ring(self, key: Key) -> None:
        del self._timers[key]
        self.add(key)

    def pause(self) -> None:
        self._paused = True

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
