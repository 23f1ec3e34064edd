"""The probes of a container: commands, HTTP requests and TCP connections that never block the supervisor."""

from __future__ import annotations

import errno
import os
import select
import socket
import time

from . import lifecycle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from typing import TypeVar

    from .container import Container
    from .pod_process import PodProcess
    from .pod_spec import HttpGet, Probe, ProbeKind, TcpSocket

    Result = TypeVar("Result")
    Waits = Mapping[type[OSError], int]
    """The errors of a call that would block, and the poll events to wait for."""
    Enter = Callable[[list[str]], Container]
    Steps = Generator[int, None, str]
    """A conversation over a socket: it yields the poll events to wait for and returns the problem, or ""."""

_ANSWER = 10 << 10  # bytes of an HTTP response that are read, as the kubelet does
_SAID = 200  # characters of a command's last line in a message


class ContainerProbes:
    """The probes of one run of a container, from its start until it ends or gets SIGTERM."""

    def __init__(self, pod: PodProcess, name: str, specs: dict[ProbeKind, Probe], enter: Enter) -> None:
        now = time.monotonic()
        self.failure = ""  # why the container must be killed
        self.grace: float | None = None  # the grace period of the failed probe, if it has one
        self._pod = pod
        self._name = name
        self._specs = specs
        self._enter = enter
        self._tallies = dict.fromkeys(specs, lifecycle.NEW)
        self._due = {kind: now + lifecycle.first_after(kind, spec) for kind, spec in specs.items()}
        self._attempts: dict[ProbeKind, _Attempt] = {}

    @property
    def started(self) -> bool:
        """Whether the startup probe has succeeded, if there is one."""
        return self._succeeds("startup")

    @property
    def ready(self) -> bool:
        """Whether the container has started and its readiness probe succeeds, if there is one."""
        return self.started and self._succeeds("readiness")

    def due_in(self, now: float) -> list[float]:
        deadlines = [attempt.deadline - now for attempt in self._attempts.values()]
        return [*deadlines, *(self._due[kind] - now for kind in self._waiting())]

    def tick(self, now: float) -> None:
        """Start the probes that are due, and fail those that have timed out."""
        for kind, attempt in list(self._attempts.items()):
            if now >= attempt.deadline:
                attempt.finish(f"timed out after {self._specs[kind]['timeout']:g} s")
        for kind in self._waiting():
            if now >= self._due[kind]:
                self._begin(kind)

    def reaped(self, pid: int, status: int) -> None:
        """Handle the end of a child of the supervisor, which may be a command."""
        for attempt in list(self._attempts.values()):
            attempt.reaped(pid, status)

    def close(self) -> None:
        """Stop probing; `started` and `ready` keep their values."""
        for attempt in self._attempts.values():
            attempt.close()
        self._attempts.clear()
        self._due.clear()

    def _succeeds(self, kind: ProbeKind) -> bool:
        return kind not in self._specs or self._tallies[kind][0] is True

    def _waiting(self) -> list[ProbeKind]:
        startup = self.started or None
        return [kind for kind in self._due if kind not in self._attempts and lifecycle.may_run(kind, startup)]

    def _begin(self, kind: ProbeKind) -> None:
        spec = self._specs[kind]

        def done(problem: str) -> None:
            self._finish(kind, problem)

        attempt: _Attempt
        try:
            if "exec" in spec:
                attempt = _Command(self._pod, spec["timeout"], done, self._enter(spec["exec"]))
            else:
                attempt = _Conversation(self._pod, spec["timeout"], done, spec)
        except OSError:  # this user has no process or descriptor left; that is not a problem of the container
            self._due[kind] += spec["period"]
            return
        self._attempts[kind] = attempt
        attempt.start()

    def _finish(self, kind: ProbeKind, problem: str) -> None:
        attempt, spec, before = self._attempts.pop(kind), self._specs[kind], self._tallies[kind]
        tally = self._tallies[kind] = lifecycle.count(before, not problem, spec)
        self._due[kind] = lifecycle.next_at(attempt.began, time.monotonic(), spec)
        if tally[0] == before[0]:
            return
        self._pod.changed()
        if problem:
            text = f"{kind} probe failed: {problem}"
            self._pod.warn(f"{self._name}: {text}")
            if lifecycle.fails_container(kind, tally):
                self.failure, self.grace = text, spec["grace"]


class _Attempt:
    """One run of a probe; `finish` reports the problem, or "" if it succeeded."""

    def __init__(self, pod: PodProcess, timeout: float, done: Callable[[str], None]) -> None:
        self.began = time.monotonic()
        self.deadline = self.began + timeout
        self._pod = pod
        self._done = done

    def start(self) -> None:
        """Take the first step; a conversation may finish in it."""

    def close(self) -> None:
        raise NotImplementedError

    def reaped(self, pid: int, status: int) -> None:
        """Handle the end of a child of the supervisor."""

    def finish(self, problem: str) -> None:
        self.close()
        self._done(problem)


class _Command(_Attempt):
    """A command in the container; it succeeds if it exits with 0."""

    def __init__(self, pod: PodProcess, timeout: float, done: Callable[[str], None], process: Container) -> None:
        super().__init__(pod, timeout, done)
        self._process: Container | None = process
        self._output = b""
        pod.watch(process.output, lambda _: self._read(process))
        pod.watch(process.channel.fileno(), lambda _: self._listen(process))

    def _read(self, process: Container) -> None:
        try:
            data = os.read(process.output, 1 << 16)
        except BlockingIOError:
            return
        self._output = (self._output + data)[-4 * _SAID :]
        if not data:
            self._pod.unwatch(process.output)

    def _listen(self, process: Container) -> None:
        _, listeners, is_open = process.receive()
        for listener in listeners:
            self._pod.listen_to(listener)
        if not is_open:
            self._pod.unwatch(process.channel.fileno())

    def reaped(self, pid: int, status: int) -> None:
        process = self._process
        if process is None or process.pid != pid:
            return
        self._read(process)
        self._release(process)
        code = lifecycle.exit_code(status)
        said = self._output.decode(errors="replace").strip().rpartition("\n")[2][-_SAID:]
        self.finish("" if code == 0 else f"exit code {code}: {said}".removesuffix(": "))

    def close(self) -> None:
        if self._process is not None:
            self._process.kill_all()
            self._release(self._process)

    def _release(self, process: Container) -> None:
        self._pod.unwatch(process.output)
        self._pod.unwatch(process.channel.fileno())
        process.close()
        self._process = None


class _Conversation(_Attempt):
    """An HTTP request or a TCP connection over a non-blocking socket."""

    def __init__(self, pod: PodProcess, timeout: float, done: Callable[[str], None], spec: Probe) -> None:
        super().__init__(pod, timeout, done)
        self._socket = socket.socket()
        self._socket.setblocking(False)
        self._fd = self._socket.fileno()
        self._steps = _get(self._socket, spec["http"]) if "http" in spec else _connect(self._socket, spec["tcp"])

    def start(self) -> None:
        self._advance()

    def _advance(self, _: int = 0) -> None:
        self._pod.unwatch(self._fd)
        try:
            events = next(self._steps)
        except StopIteration as end:
            self.finish(end.value)
        except OSError as error:
            self.finish(error.strerror or str(error))
        else:
            self._pod.watch(self._fd, self._advance, events)

    def close(self) -> None:
        self._pod.unwatch(self._fd)
        self._steps.close()  # this closes the socket object of a TLS connection
        self._socket.close()


def _connect(sock: socket.socket, address: TcpSocket | HttpGet) -> Steps:
    error = sock.connect_ex((address["host"], address["port"]))
    if error == errno.EINPROGRESS:
        yield select.POLLOUT
        error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, os.strerror(error))
    return ""


def _get(sock: socket.socket, http: HttpGet) -> Steps:
    yield from _connect(sock, http)
    if not http["tls"]:
        return (yield from _exchange(sock, http, {BlockingIOError: select.POLLIN}))
    import ssl  # it is slow to load, and few probes need it

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the kubelet does not verify certificates either
    waits: Waits = {ssl.SSLWantReadError: select.POLLIN, ssl.SSLWantWriteError: select.POLLOUT}
    with context.wrap_socket(sock, do_handshake_on_connect=False) as encrypted:
        yield from _retried(encrypted.do_handshake, waits)
        return (yield from _exchange(encrypted, http, waits))


def _exchange(sock: socket.socket, http: HttpGet, waits: Waits) -> Steps:
    """Send the request, which fits into the socket buffer, and read the response."""
    yield from _retried(lambda: sock.send(request(http)), waits)
    answer = b""
    while not is_complete(answer):
        data = yield from _retried(lambda: sock.recv(_ANSWER), waits)
        if not data:
            break
        answer += data
    return problem_of(answer)


def _retried(call: Callable[[], Result], waits: Waits) -> Generator[int, None, Result]:
    """Repeat a call on a socket whenever the socket is ready, until it has a result."""
    while True:
        try:
            return call()
        except tuple(waits) as error:
            events = waits[type(error)]
        yield events


def request(http: HttpGet) -> bytes:
    """Return an HTTP request as the kubelet sends it; the probe's own headers replace the usual ones."""
    given = {name.lower() for name, _ in http["headers"]}
    usual = [("Host", f"{http['host']}:{http['port']}"), ("User-Agent", "kube-probe/tfjob"), ("Accept", "*/*")]
    headers = [*http["headers"], *(pair for pair in usual if pair[0].lower() not in given), ("Connection", "close")]
    lines = [f"GET {http['path']} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode()


def is_complete(answer: bytes) -> bool:
    """Return whether enough of a response has arrived; a server may leave the connection open after it."""
    head, separator, body = answer.partition(b"\r\n\r\n")
    if len(answer) >= _ANSWER or not separator:
        return len(answer) >= _ANSWER
    first, *lines = head.lower().split(b"\r\n")
    fields = {name: value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    if b"chunked" in fields.get(b"transfer-encoding", b""):
        return body.endswith(b"0\r\n\r\n")
    length = fields.get(b"content-length", b"")
    return len(body) >= int(length) if length.isdigit() else first.split()[1:2] in ([b"204"], [b"304"])


def problem_of(answer: bytes) -> str:
    """Return the problem of a response; empty if its status is from 200 to 399."""
    words = answer.partition(b"\r\n")[0].split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        return "the response is not HTTP" if answer else "the connection was closed without a response"
    return "" if 200 <= int(words[1]) < 400 else f"HTTP status {int(words[1])}"
