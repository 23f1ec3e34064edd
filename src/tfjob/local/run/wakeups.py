"""When to look again: as soon as a file changed that a driver cares about, and otherwise after a while.

Linux tells (inotify). Where it does not, or where its limits are used up, looks come many times a second.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from tfjob.local.sandbox import syscalls

BUSY_SECONDS = 0.05
"""Between two looks while much happens, or where nobody tells."""
REST_SECONDS = 1.0
"""Between two looks at files that do not change; what only time brings, such as a retry, waits no longer."""
_READ = 65536


class Wakeups:
    """The changes below some folders, for one task of an event loop."""

    def __init__(self) -> None:
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
        """Wakes up when a file in a folder is written, replaced or made; a folder that is not there yet is ignored."""
        if self._descriptor is None or folder in self._watched:
            return
        try:
            syscalls.inotify_watch(self._descriptor, str(folder))
        except FileNotFoundError:
            return
        except OSError:  # the limits of this user
            self.close()
        self._watched.add(folder)
        self.wake()  # something may have been written there before

    def wake(self) -> None:
        self._event.set()

    async def pause(self) -> None:
        """Waits until it is worth while to look again."""
        rest = BUSY_SECONDS if self._descriptor is None or self._again else REST_SECONDS
        self._again = False
        with suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), rest)
            self._again = True  # a file's end is told just before its lock is free
        # Not more often than that, however much is written.
        await asyncio.sleep(max(0.0, self._last + BUSY_SECONDS - time.monotonic()))
        self._event.clear()
        self._last = time.monotonic()

    def close(self) -> None:
        """From now on looks come by the clock."""
        if self._descriptor is not None:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _drain(self) -> None:
        if self._descriptor is not None:
            with suppress(BlockingIOError):
                os.read(self._descriptor, _READ)
        self.wake()
