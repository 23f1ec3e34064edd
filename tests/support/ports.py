"""Ports of this machine for servers that a test starts."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return a port without a listener, and reserve it until this process ends.

    A bound socket that does not listen holds it: the kernel gives the port to no other program, and no other test run
    can bind it first. A server that sets SO_REUSEADDR, as servers do, can still listen.
    """
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    # Only now: two sockets with the option could be bound to the same port.
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    port: int = holder.getsockname()[1]
    holder.detach()
    return port
