"""What is printed, on its way to whoever reads it: a thread writes it, so that a slow reader keeps nobody waiting."""

from __future__ import annotations

import asyncio
import os
import select
import threading
import time
from collections import deque

MOST_BYTES = 4 * 2**20
"""What waits beyond this should not be added to: logs lie on the disk, and can be read when there is room."""
PIECE = select.PIPE_BUF
"""What a pipe takes at once, or not yet: a line that fits is not torn by others who write there."""
STEP_SECONDS = 0.005


class Outbox:
    """Bytes for one descriptor, written in order; once that fails, or nobody wants to wait, they are thrown away."""

    def __init__(self, descriptor: int) -> None:
        # A copy: whoever gives up on the output leads the original elsewhere, while a write may still be under way.
        self._descriptor = os.dup(descriptor)
        self._texts: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._waiting = 0
        self._taken = 0
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._hurrying: asyncio.Task[None] | None = None
        self.error: OSError | None = None
        self.is_left = False

    def put(self, text: bytes) -> None:
        """Returns at once."""
        with self._changed:
            if self.error or self.is_left or not text:
                return
            self._texts.append(text)
            self._waiting += len(text)
            if self._thread is None:
                # A daemon: one that is in the midst of a write which nobody reads must not keep the process.
                self._thread = threading.Thread(target=self._write_all, name="outbox", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    @property
    def is_empty(self) -> bool:
        """Whether all was written, or thrown away."""
        return self._waiting == 0

    @property
    def is_full(self) -> bool:
        """Whether who can wait should."""
        return self._waiting > MOST_BYTES

    async def delivered(self) -> None:
        """Waits until all is written, or thrown away."""
        while not self.is_empty:
            await asyncio.sleep(STEP_SECONDS)

    def hurry(self, seconds: float) -> None:
        """From now on leaves as soon as nothing is taken for so long, though something waits."""
        if self._hurrying is None:
            self._hurrying = asyncio.create_task(self._leave_if_stuck(seconds))

    async def _leave_if_stuck(self, seconds: float) -> None:
        taken, since = self._taken, time.monotonic()
        while not (self.is_left or self._is_closed):
            await asyncio.sleep(STEP_SECONDS)
            if self.is_empty or self._taken != taken:
                taken, since = self._taken, time.monotonic()
            elif time.monotonic() - since >= seconds:
                self.leave()

    def wait(self, seconds: float) -> None:
        """As `delivered`, for who has no event loop; not for ever."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._waiting and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)

    def leave(self) -> None:
        """Throws away what was not written yet, and all that comes."""
        with self._changed:
            self.is_left = True
            self._drop()

    def close(self) -> None:
        """Ends the thread as soon as it has written what waits."""
        with self._changed:
            self._is_closed = True
            if self._thread is None:
                os.close(self._descriptor)
            self._changed.notify_all()

    def _drop(self) -> None:
        self._texts.clear()
        self._waiting = 0
        self._changed.notify_all()

    def _write_all(self) -> None:
        while True:
            with self._changed:
                while not self._texts and not self._is_closed:
                    self._changed.wait()
                text = b"".join(self._texts)
                self._texts.clear()
            if not text:
                os.close(self._descriptor)
                return
            try:
                self._write(text)
            except OSError as error:
                with self._changed:
                    self.error = error
                    self._drop()
            with self._changed:
                self._waiting = max(0, self._waiting - len(text))
                self._changed.notify_all()

    def _write(self, text: bytes) -> None:
        view, start = memoryview(text), 0
        while start < len(text) and not self.is_left:
            end = text.rfind(b"\n", start, start + PIECE) + 1 or start + PIECE
            try:
                start += os.write(self._descriptor, view[start:end])
                self._taken += 1
            except BlockingIOError:  # somebody else made it so
                select.select([], [self._descriptor], [])
