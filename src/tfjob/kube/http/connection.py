"""One connection to an API server: a request, its response, the next request.

We have our own HTTP client because every command and every write of the operator waits for it: a library takes a
quarter of a second to import and more than half of a request's CPU.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import AsyncGenerator
from typing import cast

from tfjob.kube.http.answer import Answer

BUFFER_LIMIT = 2 * 1024 * 1024
"""How many bytes of a stream wait for the reader before the sender must pause."""

_AT_ONCE = struct.pack("ii", 1, 0)
_GONE = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH)
"""Kernel errors of a connection whose other end does not respond."""


class Broken(ConnectionError):
    """The connection ended, or did not carry a valid response."""


class Connection(asyncio.Protocol):
    """A connection that carries one request at a time."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.peer_is_gone = False
        """Whether the connection ended because the other end stopped responding, rather than by being closed."""
        self.transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()
        self._answer: Answer | None = None
        self._whole = True
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._paused = False

    @property
    def usable(self) -> bool:
        answer = self._answer
        return (
            self._error is None
            and not self.transport.is_closing()
            and (answer is None or (answer.complete and answer.keep_alive))
        )

    @property
    def answered(self) -> bool:
        return self._answer is not None and self._answer.begun

    async def send(
        self, message: bytes, seconds: float | None, *, whole: bool = True, bodyless: bool = False
    ) -> Answer:
        """Return the response to a request, or with `whole=False` its head. Raises Broken or TimeoutError."""
        answer = Answer(bodyless=bodyless)
        self._answer, self._whole = answer, whole
        self.transport.write(message)
        await self._woken(seconds)
        return answer

    async def chunks(self, idle: float | None) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives. Raises Broken if it breaks off, TimeoutError after `idle` silent seconds."""
        answer = self._answer
        assert answer is not None
        while True:
            if answer.size:
                data = answer.take()
                if self._paused:
                    self._paused = False
                    self.transport.resume_reading()
                yield data
            elif answer.complete:
                return
            elif self._error is not None:
                raise self._error
            else:
                await self._woken(idle)

    def abort(self) -> None:
        self.transport.abort()

    async def _woken(self, seconds: float | None) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = waiter = self._loop.create_future()
        late = TimeoutError("no answer in time")
        timer = self._loop.call_later(seconds, self._fail, late) if seconds is not None else None
        try:
            await waiter
        except BaseException:
            self.abort()
            raise
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(self._error)

    # --- what the event loop calls ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        # When this process ends, the kernel drops what it could not deliver: an operator that is cut off loses its
        # lease, and its write must not arrive when another one leads.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None or answer.complete:
            self.abort()  # no request is open
            return
        try:
            answer.feed(data)
        except ValueError as error:
            self._fail(Broken(str(error)))
            self.abort()
            return
        waiter = self._waiter
        if waiter is not None and (answer.complete if self._whole else answer.status) and not waiter.done():
            waiter.set_result(None)
        if not self._whole and answer.size > BUFFER_LIMIT and not self._paused:
            self._paused = True
            self.transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """Wake the waiting request; a response that lasts until the end of the connection is complete now."""
        answer, waiter = self._answer, self._waiter
        self.peer_is_gone = isinstance(error, OSError) and error.errno in _GONE
        if answer is not None and answer.status and answer.end() and waiter is not None and not waiter.done():
            waiter.set_result(None)
        # The pool that keeps the connection must see that it is gone.
        self._fail(Broken(str(error) if error else "the connection was closed"))
