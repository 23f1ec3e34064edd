"""The user's fork servers from outside: start one, request a supervisor from it, list those that run.

There is one fork server, with its own folder, for each interpreter, set of variables that an import reads, and set of
surroundings. The process that starts a fork server takes its lock and passes it on, so that there are never two.

The surroundings are what a process inherits in addition to its environment: limits, rights, groups, namespaces. A fork
inherits them from its fork server, so the fork server must have the same ones as the driver.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from tfjob.durations import USUAL, Durations
from tfjob.local.sandbox import pod_files, processes, supervisor
from tfjob.local.sandbox.pod_files import file_identity, file_version
from tfjob.local.state.home import Home, write_whole
from tfjob.local.warm import policy

MOST = 4
"""How many fork servers a user may have: each takes some 200 MB."""
OLDEST_PYTHON = (3, 11)
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")
_STATUS = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")


class NotWarm(Exception):
    """No fork is available; the text completes "because ..."."""


class State(msgspec.Struct, rename="camel"):
    """What a fork server reports about itself."""

    pid: int = 0
    python: str = ""
    tensorflow: str = ""
    forked: int = 0
    users: int = 0
    idle_since: float = 0.0
    idle: float = 0.0
    unfit: str = ""

    @property
    def ends_in(self) -> float:
        return max(0.0, self.idle_since + self.idle - time.time())


class ForkServer:
    """One fork server as a driver uses it: call `ready` until it returns True, then `launch`, finally `close`."""

    def __init__(
        self, home: Home, program: str, env: Mapping[str, str], idle: float, durations: Durations = USUAL
    ) -> None:
        self._program = program
        self._env = dict(env)
        self._idle = idle
        self._start_seconds = durations.fork_server_start.total_seconds()
        self._answer_seconds = durations.fork_server_answer.total_seconds()
        self._ready_seconds = durations.fork_ready.total_seconds()
        self._folders = home.fork_servers
        self.folder = self._folders / _key(program, env)
        self._connection: socket.socket | None = None
        self._born_with: socket.socket | None = None  # tells a server that this process started that it still runs
        self._started = False
        self._deadline = 0.0  # when a starting server must be ready

    def ready(self) -> bool:
        """Return whether it can fork now; start it if it is not running. Raise NotWarm if it cannot run."""
        try:
            if self._connection is None and not self._connect():
                self._ensure_starting()
            return self._connection is not None
        except NotWarm:
            self.close()
            raise

    def _ensure_starting(self) -> None:
        try:
            if not pod_files.is_locked(str(self.folder / "lock")):
                if self._started:
                    raise NotWarm(self._last_words())
                self._start()
        except OSError as error:
            raise NotWarm(f"its fork server could not be started: {error}") from None
        self._deadline = self._deadline or time.monotonic() + self._start_seconds
        if time.monotonic() > self._deadline:
            raise NotWarm(f"its fork server was not ready after {self._start_seconds:g} s")

    def launch(self, pod_dir: Path, secrets: bytes) -> None:
        """Fork a pod's supervisor and wait until it holds its lock; raise NotWarm if nothing was started."""
        assert self._connection is not None
        hidden = os.memfd_create("secrets", os.MFD_CLOEXEC)
        reader, writer = os.pipe()
        errors = os.open(pod_dir / "supervisor.err", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(hidden, secrets)
            os.lseek(hidden, 0, os.SEEK_SET)
            request = json.dumps({"launch": str(pod_dir)}).encode()
            socket.send_fds(self._connection, [request], [hidden, writer, errors])
            answer = self._receive()
        except OSError as error:
            answer = {"unfit": f"its fork server does not respond: {error}"}
        finally:
            for fd in (hidden, writer, errors):
                os.close(fd)
        if "pid" not in answer:
            os.close(reader)
            self.close()
            raise NotWarm(answer.get("unfit") or "its fork server has exited")
        try:
            ready = _read_all(reader, self._ready_seconds)
        except TimeoutError:
            with suppress(OSError):
                os.killpg(answer["pid"], signal.SIGKILL)
            raise NotWarm(f"its fork was not ready after {self._ready_seconds:g} s") from None
        finally:
            os.close(reader)
        if ready != b"ready":
            raise supervisor.LaunchError.from_answer(ready, pod_dir)

    def close(self) -> None:
        """Disconnect; the server stays for a while, for the next run."""
        _disconnect(self._connection)
        _disconnect(self._born_with)
        self._connection = self._born_with = None

    def _connect(self) -> bool:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(self._answer_seconds)  # it checks many files first, and the disk may be slow
        self._connection = connection
        try:
            pod_files.use_socket(connection.connect, str(self.folder / "socket"))
            if "fit" in self._receive():
                self._started, self._deadline = False, 0.0  # if it exits, another one may be started
                _disconnect(self._born_with)
                self._born_with = None
                return True
        except TimeoutError:
            if pid := _state(self.folder).pid:  # it has been ready before: waiting longer will not help
                raise NotWarm(f"its fork server does not respond (to end it: kill -9 {pid})") from None
        except OSError:
            pass
        _disconnect(connection)  # there is no server, or it is exiting because a file has changed
        self._connection = None
        return False

    def _receive(self) -> dict[str, Any]:
        assert self._connection is not None
        answer: dict[str, Any] = json.loads(self._connection.recv(65536) or b"{}")
        return answer

    def _start(self) -> None:
        _remove_left(self._folders, but=self.folder)
        if len(running(self._folders)) >= MOST:
            raise NotWarm(f"{MOST} fork servers are already running (`tfjob doctor` lists them)")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = pod_files.take_lock(str(self.folder / "lock"))
        if lock is None:
            return  # another run is starting it
        pod_files.remove(str(self.folder / "state.json"))
        write_whole(self.folder / "settings.json", json.dumps(self._settings()).encode())
        spare, output = os.pipe()
        self._born_with, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        inherited = [lock, spare, theirs.fileno()]
        try:
            started = subprocess.run(
                [self._program, "-c", _text(), str(self.folder), *map(str, inherited), processes.ROOM],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**self._env, processes.MARK: processes.BLANK_MARK},
                cwd="/",
                start_new_session=True,
                pass_fds=inherited,
                timeout=self._start_seconds,
                check=False,
            )
            self._started = True
            if started.returncode:
                raise NotWarm(os.read(spare, 4096).decode(errors="replace").strip().rpartition("\n")[2])
        except subprocess.TimeoutExpired:
            raise NotWarm(f"{self._program} did not start within {self._start_seconds:g} s") from None
        finally:
            theirs.close()
            for fd in (lock, spare, output):
                os.close(fd)

    def _settings(self) -> dict[str, object]:
        return {
            "program": self._program,
            "idle": self._idle,
            "names": sorted(policy.READ_AT_IMPORT),
            "prefixes": policy.READ_AT_IMPORT_PREFIXES,
            "ignored": sorted(policy.SET_AFTER_THE_FORK | policy.HARMLESS_LATER),
            "files": [f"{self._env.get('KERAS_HOME') or self._env.get('HOME', '') + '/.keras'}/keras.json"],
        }

    def _last_words(self) -> str:
        if unfit := _state(self.folder).unfit:
            return unfit
        try:
            lines = (self.folder / "log").read_text(errors="replace").split("\n")
        except OSError:
            lines = []
        last = next((line for line in reversed(lines) if line.strip()), "")
        return f"its fork server exited during startup: {last}" if last else "its fork server exited during startup"


def running(folders: Path) -> list[State]:
    found = sorted(folders.iterdir()) if folders.is_dir() else []
    return [_state(folder) for folder in found if pod_files.is_locked(str(folder / "lock"))]


def _disconnect(connection: socket.socket | None) -> None:
    """Close a connection; without the message, the server would take this process for killed."""
    if connection is not None:
        with suppress(OSError):
            connection.send(b'{"bye": true}')
        connection.close()


def _text() -> str:
    """Return the server's code, which leaves sys.path unchanged for the programs of its forks."""
    major, minor = OLDEST_PYTHON
    return f"""import sys
if sys.version_info < {OLDEST_PYTHON}: sys.exit("a fork server needs Python {major}.{minor} or newer")
sys.modules["tfjob"] = type(sys)("tfjob")
sys.modules["tfjob"].__path__ = [{f"{supervisor.PACKAGE_PARENT}/tfjob"!r}]
from tfjob.local.warm.fork_server import main
main()"""


def _key(program: str, env: Mapping[str, str]) -> str:
    """Return a key that is equal for all replicas that can be forked from the same process."""
    venv = Path(program).parent.parent / "pyvenv.cfg"
    interpreter = [program, os.path.realpath(program), *(file_version(path) for path in (program, str(venv), __file__))]
    whole = json.dumps([interpreter, sorted(env.items()), surroundings()])
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def _state(folder: Path) -> State:
    try:
        return msgspec.json.decode((folder / "state.json").read_bytes(), type=State)
    except (OSError, msgspec.DecodeError):
        return State()


def _remove_left(folders: Path, *, but: Path) -> None:
    """Remove the folders of fork servers that have exited."""
    for folder in folders.iterdir() if folders.is_dir() else ():
        if folder != but and not pod_files.is_locked(str(folder / "lock")):
            shutil.rmtree(folder, ignore_errors=True)


def _read_all(reader: int, seconds: float) -> bytes:
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    deadline = time.monotonic() + seconds
    data = b""
    while poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        more = os.read(reader, 4096)
        if not more:
            return data
        data += more
    raise TimeoutError


def surroundings() -> list[str]:
    return [
        *_lines("/proc/self/limits"),
        *(f"{name} {file_identity(f'/proc/self/ns/{name}')}" for name in _NAMESPACES),
        *(line for line in _lines("/proc/self/status") if line.split(":")[0] in _STATUS),
        *_lines("/proc/self/cgroup"),
        *_lines("/proc/self/oom_score_adj"),
        f"nice {os.getpriority(os.PRIO_PROCESS, 0)} {os.sched_getscheduler(0)} {sorted(os.sched_getaffinity(0))}",
        f"root {file_identity('/')}",
    ]


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
