"""One address per pod: bind(0.0.0.0:p) becomes bind(podIP:p), and connect(localhost:p) follows it.

TensorFlow's server binds the wildcard address whatever TF_CONFIG contains, so two replicas could never share a port. A
seccomp filter in the workload forwards its bind and connect calls to the supervisor, which binds a duplicate of the
socket to the pod's address. Other calls, other addresses and port 0 pass through unchanged.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct

from . import syscalls

DOOR = "binds.socket"
"""The socket in a pod's folder on which its supervisor receives the filters of commands that `exec` runs."""
_RECV, _SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_*
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_RESPONSE = struct.Struct("=QqiI")
_CONTINUE = 1

_ANY4, _LOCAL4 = bytes(4), b"\x7f\0\0\x01"
_MAPPED = bytes(10) + b"\xff\xff"
_OUR_IPV4 = (_ANY4, _LOCAL4)
_OUR_IPV6 = (bytes(16), bytes(15) + b"\x01", _MAPPED + _ANY4, _MAPPED + _LOCAL4)


def install_filter(channel: socket.socket, message: bytes) -> None:
    """Forward this process's bind and connect calls to the supervisor, which receives the listener on `channel`."""
    load, equal, give = 0x20, 0x15, 0x06
    notify, allow = 0x7FC00000, 0x7FFF0000
    listener = syscalls.seccomp_listener(
        [
            (load, 0, 0, 4),  # seccomp_data.arch
            (equal, 0, 4, syscalls.AUDIT_ARCH),
            (load, 0, 0, 0),  # seccomp_data.nr
            (equal, 1, 0, syscalls.NR_BIND),
            (equal, 0, 1, syscalls.NR_CONNECT),
            (give, 0, 0, notify),
            (give, 0, 0, allow),
        ]
    )
    socket.send_fds(channel, [message], [listener])
    os.close(listener)


def rewrite(address: bytes, pod_ip: str) -> tuple[int, bytes] | None:
    """Return the port and the sockaddr that replace a wildcard or loopback `address`; None for other addresses."""
    if len(address) < 8:
        return None
    family, port = struct.unpack_from("=H", address)[0], struct.unpack_from("!H", address, 2)[0]
    if port == 0:
        return None
    ip = socket.inet_aton(pod_ip)
    if family == socket.AF_INET and address[4:8] in _OUR_IPV4:
        return port, address[:4] + ip + bytes(8)
    if family == socket.AF_INET6 and len(address) >= 24 and address[8:24] in _OUR_IPV6:
        return port, address[:4] + bytes(4) + _MAPPED + ip + bytes(4)
    return None


class BindRewriter:
    """Answers the notifications of a pod's containers; they share the address, as they do on a cluster."""

    def __init__(self, pod_ip: str) -> None:
        self._ip = pod_ip
        self.ports: set[int] = set()  # where the pod listens

    def answer(self, listener: int) -> bool:
        """Answer one waiting call; return whether it opened a port."""
        request = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(listener, _RECV, request)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):  # the caller has been killed
                return False
            raise
        call, thread, _, number, _, _, fd, pointer, length, *_ = _NOTIFICATION.unpack(request)
        before = len(self.ports)
        try:
            response = self._decide(thread, number, fd, pointer, length)
        except OSError:  # the caller has ended or its memory is unreadable: let the kernel make the call
            response = (0, _CONTINUE)
        try:
            fcntl.ioctl(listener, _SEND, _RESPONSE.pack(call, 0, *response))
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
        return before != len(self.ports)

    def _decide(self, thread: int, number: int, fd: int, pointer: int, length: int) -> tuple[int, int]:
        """Return the (negative errno, flags) of the response."""
        address = _read_memory(thread, pointer, min(length, 28))
        new = rewrite(address, self._ip)
        if new is None:
            return 0, _CONTINUE
        port, sockaddr = new
        if number == syscalls.NR_BIND:
            failure = self._bind(thread, fd, sockaddr)
            if not failure:
                self.ports.add(port)
            return -failure, 0
        if port in self.ports:  # the pod's own listener; a connect may block, so the caller makes it
            _write_memory(thread, pointer, sockaddr[:length])
        return 0, _CONTINUE

    def _bind(self, thread: int, fd: int, sockaddr: bytes) -> int:
        pidfd = os.pidfd_open(_process_of(thread))
        try:
            duplicate = socket.socket(fileno=syscalls.pidfd_getfd(pidfd, fd))
        finally:
            os.close(pidfd)
        with duplicate:
            if duplicate.family == socket.AF_INET6 and duplicate.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY):
                return errno.EADDRNOTAVAIL  # servers then use IPv4 only
            return syscalls.bind_socket(duplicate.fileno(), sockaddr)


def _process_of(thread: int) -> int:
    with open(f"/proc/{thread}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("Tgid:"))


def _read_memory(thread: int, pointer: int, length: int) -> bytes:
    with open(f"/proc/{thread}/mem", "rb", 0) as memory:
        memory.seek(pointer)
        return memory.read(length) or b""


def _write_memory(thread: int, pointer: int, data: bytes) -> None:
    with open(f"/proc/{thread}/mem", "r+b", 0) as memory:
        memory.seek(pointer)
        memory.write(data)
