"""Ports that are reserved for the servers of a test."""

from __future__ import annotations

import socket

import pytest

from support.ports import free_port


def test_only_a_server_can_use_a_reserved_port() -> None:
    port = free_port()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    for _ in range(2):  # also after it was used
        with socket.create_server(("127.0.0.1", port)) as server, socket.create_connection(server.getsockname()):
            pass
