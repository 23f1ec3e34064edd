"""The probes of a container: commands, HTTP requests and TCP connections, each in a child of the supervisor."""

from __future__ import annotations

import os
import socket
import ssl
import time
from http import client

from . import lifecycle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .container import Container
    from .pod_process import PodProcess
    from .pod_spec import HttpGet, Probe, ProbeKind

    Start = Callable[[Probe], Container]

_ANSWER = 10 << 10  # bytes of an HTTP response that are read, as the kubelet does
_SAID = 200  # characters of a command's last line in a message


class ContainerProbes:
    """The probes of one run of a container, from its start until it ends or gets SIGTERM."""

    def __init__(self, pod: PodProcess, name: str, specs: dict[ProbeKind, Probe], start: Start) -> None:
        now = time.monotonic()
        self.failure = ""  # why the container must be killed
        self.grace: float | None = None  # the grace period of the failed probe, if it has one
        self._pod = pod
        self._name = name
        self._specs = specs
        self._start = start
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
        # The other probes wait for the startup probe, which does not run again once it has succeeded.
        allowed = [kind for kind in self._due if (kind == "startup") is not self.started]
        return [kind for kind in allowed if kind not in self._attempts]

    def _begin(self, kind: ProbeKind) -> None:
        spec = self._specs[kind]
        try:
            process = self._start(spec)
        except OSError:  # this user has no process or descriptor left; that is not a problem of the container
            self._due[kind] += spec["period"]
            return
        self._attempts[kind] = _Attempt(self._pod, spec, process, lambda problem: self._finish(kind, problem))

    def _finish(self, kind: ProbeKind, problem: str) -> None:
        attempt, spec, before = self._attempts.pop(kind), self._specs[kind], self._tallies[kind]
        tally = self._tallies[kind] = lifecycle.count(before, not problem, spec)
        self._due[kind] = max(attempt.began + spec["period"], time.monotonic())  # runs of a probe never overlap
        if tally[0] == before[0]:
            return
        self._pod.changed()
        if problem:
            text = f"{kind} probe failed: {problem}"
            self._pod.warn(f"{self._name}: {text}")
            if kind != "readiness":
                self.failure, self.grace = text, spec["grace"]


class _Attempt:
    """One run of a probe in a child process; `finish` reports the problem, or "" if it succeeded."""

    def __init__(self, pod: PodProcess, spec: Probe, process: Container, done: Callable[[str], None]) -> None:
        self.began = time.monotonic()
        self.deadline = self.began + spec["timeout"]
        self._pod = pod
        self._is_command = "exec" in spec
        self._process = process
        self._has_ended = False
        self._done = done
        self._output = b""
        pod.watch(process.output, self._read)
        pod.watch(process.channel.fileno(), self._listen)

    def _read(self, _: int = 0) -> None:
        try:
            data = os.read(self._process.output, 1 << 16)
        except BlockingIOError:
            return
        self._output = (self._output + data)[-4 * _SAID :]
        if not data:
            self._pod.unwatch(self._process.output)

    def _listen(self, _: int) -> None:
        listeners, is_open = self._process.receive()[1:]
        for listener in listeners:
            self._pod.listen_to(listener)
        if not is_open:
            self._pod.unwatch(self._process.channel.fileno())

    def reaped(self, pid: int, status: int) -> None:
        if self._process.pid != pid:
            return
        self._has_ended = True
        self._read()
        said = self._output.decode(errors="replace").strip().rpartition("\n")[2][-_SAID:]
        code = lifecycle.exit_code(status)
        if code and (self._is_command or not said):
            said = f"exit code {code}: {said}".removesuffix(": ")
        self.finish(said if code else "")

    def finish(self, problem: str) -> None:
        self.close()
        self._done(problem)

    def close(self) -> None:
        if not self._has_ended:
            self._process.kill_all()
        self._pod.unwatch(self._process.output)
        self._pod.unwatch(self._process.channel.fileno())
        self._process.close()


def check(spec: Probe) -> str:
    """Make the HTTP request or the TCP connection of a probe; return the problem, or "" if it succeeds."""
    if "http" in spec:
        return get(spec["http"])
    socket.create_connection((spec["tcp"]["host"], spec["tcp"]["port"])).close()
    return ""


def get(http: HttpGet) -> str:
    """Make a request like the kubelet, which does not verify certificates and accepts any status from 200 to 399."""
    connection = client.HTTPConnection(http["host"], http["port"])
    if http["tls"]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = client.HTTPSConnection(http["host"], http["port"], context=context)
    # The headers of the probe replace the usual ones.
    given = {name.lower() for name, _ in http["headers"]}
    usual = [("Host", f"{http['host']}:{http['port']}"), ("User-Agent", "kube-probe/tfjob"), ("Accept", "*/*")]
    connection.putrequest("GET", http["path"], skip_host=True, skip_accept_encoding=True)
    for name, value in (*http["headers"], *(pair for pair in usual if pair[0].lower() not in given)):
        connection.putheader(name, value.encode())
    connection.putheader("Connection", "close")
    try:
        connection.endheaders()
        with connection.getresponse() as response:
            response.read(_ANSWER)
    except client.RemoteDisconnected:
        return "the connection was closed without a response"
    except client.HTTPException:
        return "the response is not valid HTTP"
    finally:
        connection.close()
    return "" if 200 <= response.status < 400 else f"HTTP status {response.status}"
