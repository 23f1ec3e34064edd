"""Connect a TCP connection with another address of this machine.

Each direction ends separately, so a client may close its sending side and still read the answer. A slow receiver slows
its sender.
"""

from __future__ import annotations

import asyncio

CHUNK = 64 * 1024


async def join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    from_there: asyncio.StreamReader,
    to_there: asyncio.StreamWriter,
) -> None:
    """Copy in both directions between two connections until both have ended, then close them."""
    try:
        async with asyncio.TaskGroup() as directions:
            directions.create_task(_copy(reader, to_there))
            directions.create_task(_copy(from_there, writer))
    except* OSError:
        for one in (writer, to_there):
            one.transport.abort()  # so that the other end notices that data is missing
    finally:
        to_there.close()
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
