"""A connection whose other end has lost power, or the network between: nothing is answered, not even by the kernel."""

from __future__ import annotations

import ctypes
import struct
from asyncio import BaseTransport
from socket import SOL_SOCKET

SO_ATTACH_FILTER, BPF_RETURN = 26, 6
"""Of Linux, and of its packet filters."""


def deafen(transport: BaseTransport) -> None:
    """Has the kernel drop whatever comes in; nothing may be sent any more, and it must not be closed."""
    drop_all = ctypes.create_string_buffer(struct.pack("HBBI", BPF_RETURN, 0, 0, 0))
    program = struct.pack("HL", 1, ctypes.addressof(drop_all))
    transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_ATTACH_FILTER, program)
