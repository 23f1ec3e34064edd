"""The tool whose leader stops itself between the fence and its first request: `python stopped_writer.py operator run`.

A SIGSTOP from outside falls into that moment once in hundreds of times.
"""

from __future__ import annotations

import os
import signal

from tfjob.__main__ import main
from tfjob.kube.http.answer import Answer
from tfjob.kube.http.connection import Connection

send = Connection.send


async def stop_first(connection: Connection, message: bytes, seconds: float | None, **settings: bool) -> Answer:
    """What is sent behind the fence, after a pause; the lease itself is renewed."""
    words = message.partition(b"\r\n")[0]
    if not words.startswith(b"GET ") and b"/leases" not in words:
        Connection.send = send  # type: ignore[method-assign]
        os.kill(os.getpid(), signal.SIGSTOP)
    return await send(connection, message, seconds, **settings)


if __name__ == "__main__":
    Connection.send = stop_first  # type: ignore[method-assign,assignment]
    main()
