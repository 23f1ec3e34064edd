"""A connection whose other end has lost power or network: not even its kernel answers."""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import struct
from socket import SOL_SOCKET, socket

SO_ATTACH_FILTER, SO_DETACH_FILTER, BPF_RETURN, SIOCOUTQ = 26, 27, 6, 0x5411
"""Constants of Linux for packet filters and sockets."""


async def deafen(transport: asyncio.BaseTransport) -> None:
    """Make the kernel drop all incoming packets; the caller must neither send nor close.

    Wait until all sent data has arrived first: a machine without power does not send anything again.
    """
    connected = transport.get_extra_info("socket")
    while not transport.is_closing() and struct.unpack("i", fcntl.ioctl(connected.fileno(), SIOCOUTQ, bytes(4)))[0]:
        await asyncio.sleep(0.01)
    if not transport.is_closing():
        drop_what_comes(connected)


def drop_what_comes(deaf: socket) -> None:
    """Make the kernel drop every packet for a socket, without an answer even to new connections."""
    drop_all = ctypes.create_string_buffer(struct.pack("HBBI", BPF_RETURN, 0, 0, 0))
    deaf.setsockopt(SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", 1, ctypes.addressof(drop_all)))


def take_what_comes(deaf: socket) -> None:
    """Undo it: what the other end sends again arrives."""
    deaf.setsockopt(SOL_SOCKET, SO_DETACH_FILTER, 0)
