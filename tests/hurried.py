"""The tool with fast clocks, `python hurried.py operator run`: what it notices in minutes it notices in seconds."""

from __future__ import annotations

from functools import partial

from tfjob.__main__ import main
from tfjob.kube.cache import reflector
from tfjob.kube.client import client
from tfjob.kube.client.backoff import Backoff
from tfjob.kube.http import pool

IDLE_SECONDS = 16.0
"""Far longer than a dead connection is there: what notices that must be the kernel."""
REQUEST_SECONDS = LONGEST_DELAY = 3.0
DEAD_SECONDS = 2
BOOKMARK_SECONDS = 1.0
"""As often as a server must give a sign of life then."""

if __name__ == "__main__":
    reflector.IDLE_SECONDS = IDLE_SECONDS
    client.REQUEST_SECONDS = REQUEST_SECONDS
    pool.DEAD_SECONDS = DEAD_SECONDS
    reflector.Backoff = partial(Backoff, last=LONGEST_DELAY)  # type: ignore[attr-defined,assignment]
    main()
