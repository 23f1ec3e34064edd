"""The fork servers of this user from outside: start one, ask it for a supervisor, list those that run.

There is one for each interpreter, set of variables that an import reads, and surroundings, in a folder of its own below
the state folder. The process that starts a fork server takes its lock and hands it on, so that there are never two.

The surroundings are what a process inherits in addition to its environment: limits, rights, groups, namespaces. A fork
gets all of them from its fork server, so only a fork server with the same surroundings will do.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tfjob.durations import USUAL, Durations
from tfjob.local.sandbox import pod_files, processes, supervisor
from tfjob.local.sandbox.pod_files import file_version
from tfjob.local.state.home import Home, write_whole
from tfjob.local.warm import policy

MOST = 4
"""How many of a user may be up: each holds some 200 MB."""
OLDEST_PYTHON = (3, 11)
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")
_STATUS = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
_LIMITS = tuple(name for name in dir(resource) if name.startswith("RLIMIT_"))


class NotWarm(Exception):
    """There is no fork to be had; the text goes on after "because"."""


class State(msgspec.Struct, rename="camel"):
    """What a fork server says about itself."""

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
        """Seconds until one that nobody uses ends."""
        return max(0.0, self.idle_since + self.idle - time.time())


class ForkServer:
    """One fork server as a driver uses it; `ready` until it is, then `launch`, in the end `close`."""

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
        self._born_with: socket.socket | None = None  # by which one that we started knows that we live
        self._started = False
        self._deadline = 0.0  # when it must be up, once it was started or seen to start

    def ready(self) -> bool:
        """Whether it can be asked now; starts it if there is none. Raises NotWarm if there will be none."""
        try:
            if self._connection is None and not self._connect():
                self._see_that_it_comes()
            return self._connection is not None
        except NotWarm:
            self.close()
            raise

    def _see_that_it_comes(self) -> None:
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
        """As supervisor.launch, by a fork; raises NotWarm when nothing was started."""
        assert self._connection is not None
        hidden = os.memfd_create("secrets", os.MFD_CLOEXEC)
        reader, writer = os.pipe()
        errors = os.open(pod_dir / "supervisor.err", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(hidden, secrets)
            os.lseek(hidden, 0, os.SEEK_SET)
            request = json.dumps({"launch": str(pod_dir)}).encode()
            socket.send_fds(self._connection, [request], [hidden, writer, errors])
            heard = self._hear()
        except OSError as error:
            heard = {"unfit": f"its fork server does not respond: {error}"}
        finally:
            for fd in (hidden, writer, errors):
                os.close(fd)
        if "pid" not in heard:
            os.close(reader)
            self.close()
            raise NotWarm(heard.get("unfit") or "its fork server has exited")
        pid: int = heard["pid"]
        try:
            answer = _read_all(reader, self._ready_seconds)
        except TimeoutError:
            _kill_session(pid)
            raise NotWarm(f"its fork was not ready after {self._ready_seconds:g} s") from None
        finally:
            os.close(reader)
        if answer != b"ready":
            raise supervisor.LaunchError.from_answer(answer, pod_dir)

    def close(self) -> None:
        """Let it go in order: it stays for a while, for the next run."""
        _part(self._connection)
        _part(self._born_with)
        self._connection = self._born_with = None

    def _connect(self) -> bool:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(self._answer_seconds)  # it looks at many files first, on a disk that may be slow
        self._connection = connection
        try:
            pod_files.use_socket(connection.connect, str(self.folder / "socket"))
            if "fit" in self._hear():
                self._started, self._deadline = False, 0.0  # should it end, another one may be started
                _part(self._born_with)
                self._born_with = None
                return True
        except TimeoutError:
            if pid := _state(self.folder).pid:  # it was up once: no more time will help
                raise NotWarm(f"its fork server does not respond (to end it: kill -9 {pid})") from None
        except OSError:
            pass
        _part(connection)  # none there, or one that has seen its files change, and ends
        self._connection = None
        return False

    def _hear(self) -> dict[str, Any]:
        assert self._connection is not None
        answer: dict[str, Any] = json.loads(self._connection.recv(65536) or b"{}")
        return answer

    def _start(self) -> None:
        _remove_left(self._folders, but=self.folder)
        if len(running(self._folders)) >= MOST:
            raise NotWarm(f"{MOST} fork servers are already running (`tfjob doctor` lists them)")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = pod_files.take_lock(str(self.folder))
        if lock is None:
            return  # another run starts it this very moment
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
    """What the fork servers say that are up: those that hold their lock."""
    found = sorted(folders.iterdir()) if folders.is_dir() else []
    return [_state(folder) for folder in found if pod_files.is_locked(str(folder / "lock"))]


def _part(connection: socket.socket | None) -> None:
    """Say that a connection ends in order, and end it."""
    if connection is not None:
        try:
            connection.send(b'{"bye": true}')
        except OSError:
            pass  # it has ended before us
        connection.close()


def _text() -> str:
    """The program, which leaves sys.path alone: a fork's program will look there for its own modules."""
    major, minor = OLDEST_PYTHON
    return f"""import sys
if sys.version_info < {OLDEST_PYTHON}: sys.exit("a fork server needs Python {major}.{minor} or newer")
sys.modules["tfjob"] = type(sys)("tfjob")
sys.modules["tfjob"].__path__ = [{f"{supervisor.PACKAGE_PARENT}/tfjob"!r}]
from tfjob.local.warm.fork_server import main
main()"""


def _key(program: str, env: Mapping[str, str]) -> str:
    """The same for all replicas that can be forked from one process."""
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
    """Removes what ended fork servers left."""
    for folder in folders.iterdir() if folders.is_dir() else ():
        if folder != but and not pod_files.is_locked(str(folder / "lock")):
            shutil.rmtree(folder, ignore_errors=True)


def _read_all(reader: int, seconds: float) -> bytes:
    os.set_blocking(reader, False)
    deadline = time.monotonic() + seconds
    data = b""
    while time.monotonic() < deadline:
        try:
            more = os.read(reader, 4096)
        except BlockingIOError:
            time.sleep(0.002)
            continue
        if not more:
            return data
        data += more
    raise TimeoutError


def _kill_session(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass


def surroundings() -> list[str]:
    """This process's own, as lines that are equal where everything inherited is."""
    return [
        *(f"{name} {resource.getrlimit(getattr(resource, name))}" for name in _LIMITS),
        *(f"{name} {_link(f'/proc/self/ns/{name}')}" for name in _NAMESPACES),
        *(line for line in _lines("/proc/self/status") if line.split(":")[0] in _STATUS),
        *_lines("/proc/self/cgroup"),
        *_lines("/proc/self/oom_score_adj"),
        f"nice {os.getpriority(os.PRIO_PROCESS, 0)} {os.sched_getscheduler(0)} {sorted(os.sched_getaffinity(0))}",
        f"root {_link('/proc/self/root')}",
    ]


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
