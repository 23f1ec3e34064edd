"""A relayed TCP connection, with real sockets of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tfjob.local.pod.relay import join

HOST = "127.0.0.1"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def through(handler: Handler, sent: bytes) -> bytes:
    """What a client reads that sends some bytes, closes its sending side and reads to the end."""
    async with await asyncio.start_server(handler, HOST, 0) as server:
        port = server.sockets[0].getsockname()[1]

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await join(reader, writer, *await asyncio.open_connection(HOST, port))

        async with await asyncio.start_server(connected, HOST, 0) as front:
            reader, writer = await asyncio.open_connection(*front.sockets[0].getsockname())
            writer.write(sent)
            writer.write_eof()
            answer = await asyncio.wait_for(reader.read(), 60)
            writer.close()
            return answer


def test_a_client_that_closes_its_sending_side_still_reads_the_answer() -> None:
    async def echo_at_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read())
        writer.close()

    assert asyncio.run(through(echo_at_the_end, b"hello" * 100_000)) == b"hello" * 100_000


def test_a_server_that_breaks_the_connection_ends_it_for_the_client() -> None:
    async def abort(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.transport.abort()

    assert asyncio.run(through(abort, b"hello")) == b""
