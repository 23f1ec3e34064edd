"""A connection whose other end has lost power, or the network between: nothing is answered, not even by the kernel."""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import struct
from socket import SOL_SOCKET, socket

SO_ATTACH_FILTER, SO_DETACH_FILTER, BPF_RETURN, SIOCOUTQ = 26, 27, 6, 0x5411
"""Of Linux, of its packet filters, and of its sockets."""


async def deafen(transport: asyncio.BaseTransport) -> None:
    """Has the kernel drop whatever comes in; nothing may be sent any more, and it must not be closed.

    It waits until all that was sent has arrived: a machine without power does not send anything again.
    """
    connected = transport.get_extra_info("socket")
    while not transport.is_closing() and struct.unpack("i", fcntl.ioctl(connected.fileno(), SIOCOUTQ, bytes(4)))[0]:
        await asyncio.sleep(0.01)
    if not transport.is_closing():
        drop_what_comes(connected)


def drop_what_comes(deaf: socket) -> None:
    """Has the kernel drop every packet for a socket: also who wants to connect is told nothing."""
    drop_all = ctypes.create_string_buffer(struct.pack("HBBI", BPF_RETURN, 0, 0, 0))
    deaf.setsockopt(SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", 1, ctypes.addressof(drop_all)))


def take_what_comes(deaf: socket) -> None:
    """The opposite: what the other end sends again arrives now."""
    deaf.setsockopt(SOL_SOCKET, SO_DETACH_FILTER, 0)
