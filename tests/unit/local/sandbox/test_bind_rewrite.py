"""Which addresses of a bind are rewritten."""

from __future__ import annotations

import socket
import struct

import pytest

from tfjob.local.sandbox.bind_rewrite import rewrite


def ipv4(host: str, port: int) -> bytes:
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(host) + bytes(8)


def ipv6(host: str, port: int) -> bytes:
    address = socket.inet_pton(socket.AF_INET6, host)
    return struct.pack("=H", socket.AF_INET6) + struct.pack("!H", port) + bytes(4) + address + bytes(4)


@pytest.mark.parametrize(
    ("address", "new"),
    [
        (ipv4("0.0.0.0", 2222), (2222, ipv4("127.77.0.3", 2222))),
        (ipv4("127.0.0.1", 80), (80, ipv4("127.77.0.3", 80))),
        (ipv6("::", 2222), (2222, ipv6("::ffff:127.77.0.3", 2222))),
        (ipv6("::1", 2222), (2222, ipv6("::ffff:127.77.0.3", 2222))),
        (ipv6("::ffff:0.0.0.0", 2222), (2222, ipv6("::ffff:127.77.0.3", 2222))),
        (ipv4("0.0.0.0", 0), None),
        (ipv4("10.0.0.1", 2222), None),
        (ipv4("127.77.0.9", 2222), None),
        (ipv6("fe80::1", 2222), None),
        (struct.pack("=H", socket.AF_UNIX) + b"/run/socket", None),
        (b"", None),
    ],
)
def test_only_wildcard_and_loopback_with_a_port_are_rewritten(address: bytes, new: tuple[int, bytes] | None) -> None:
    assert rewrite(address, "127.77.0.3") == new
