"""When a driver works again: as soon as a file changes that it watches, else after a while.

Linux reports changes (inotify). Without it, or if its limits are reached, the driver checks many times per second.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from tfjob.durations import USUAL, Durations
from tfjob.local.sandbox import syscalls

BUSY_SECONDS = 0.05
"""Between two checks while files change, or if the system does not report changes."""
_READ = 65536


class Wakeups:
    """Changes below some folders, for one task of an event loop."""

    def __init__(self, durations: Durations = USUAL) -> None:
        self._rest = durations.driver_rest.total_seconds()
        self._descriptor: int | None = None
        self._watched: set[Path] = set()
        self._event = asyncio.Event()
        self._last = 0.0
        self._again = False
        if sys.platform == "linux":
            with suppress(OSError):
                self._descriptor = syscalls.inotify()
                asyncio.get_running_loop().add_reader(self._descriptor, self._drain)

    def watch(self, folder: Path) -> None:
        """Wake up when a file in a folder is created, written or replaced; a missing folder is ignored."""
        if self._descriptor is None or folder in self._watched:
            return
        try:
            syscalls.inotify_watch(self._descriptor, str(folder))
        except FileNotFoundError:
            return
        except OSError:  # this user has no watches left
            self.close()
        self._watched.add(folder)
        self.wake()  # a file may have changed before the watch

    def wake(self) -> None:
        self._event.set()

    async def pause(self) -> None:
        rest = BUSY_SECONDS if self._descriptor is None or self._again else self._rest
        self._again = False
        with suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), rest)
            self._again = True  # a file is closed just before its lock is released
        # Keep this distance however often files change.
        await asyncio.sleep(max(0.0, self._last + BUSY_SECONDS - time.monotonic()))
        self._event.clear()
        self._last = time.monotonic()

    def close(self) -> None:
        """Stop watching; `pause` then only waits for time to pass."""
        if self._descriptor is not None:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _drain(self) -> None:
        if self._descriptor is not None:
            with suppress(BlockingIOError):
                os.read(self._descriptor, _READ)
        self.wake()
