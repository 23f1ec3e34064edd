"""A cluster's folder, its lock, and its processes.

Every process of a cluster has the folder's path in its environment. This finds processes that were not recorded
(because the command was killed between start and record), and does not mistake a reused pid for one of ours.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from devcluster.errors import Refused

MARK = "TFJOB_DEVCLUSTER"
PATIENCE = 20.0


def root() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "tfjob-devcluster"


@dataclass(frozen=True)
class Started:
    """A recorded process."""

    name: str
    pid: int
    born: int
    """Its start time in the kernel's ticks since boot; with the pid, this identifies the process."""

    def alive(self) -> bool:
        return birth(self.pid) == self.born


class Folder:
    """The folder of one cluster."""

    def __init__(self, name: str) -> None:
        if not name.replace("-", "").isalnum() or not name.isascii() or len(name) > 40:
            raise Refused(f"{name!r} is not a valid cluster name: use up to 40 letters, digits and dashes")
        self.name = name
        self.path = root() / name
        self.logs = self.path / "logs"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Folder) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from starting or stopping this cluster; the folder exists meanwhile."""
        with locked(self.path):
            yield

    def start(
        self, name: str, command: Sequence[str | Path], env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start a process of this cluster in the background, with a log, and record it.

        It inherits only PATH: a proxy or a kubeconfig of ours is not meant for it.
        """
        self.logs.mkdir(exist_ok=True)
        with (self.logs / f"{name}.log").open("ab") as log:
            settings: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, **options}
            process = subprocess.Popen(
                [str(word) for word in command],
                env={"PATH": os.environ.get("PATH", os.defpath), **(env or {}), MARK: str(self.path)},
                cwd=self.path,
                start_new_session=True,
                **settings,
            )
        _children.append(process)
        self.note(name, process.pid)
        return process

    def note(self, name: str, pid: int) -> None:
        others = [one for one in self.started() if one.name != name]
        self.write("processes", [asdict(one) for one in [*others, Started(name, pid, birth(pid))]])

    def started(self) -> list[Started]:
        return [Started(**fields) for fields in self.read("processes") or []]

    def write(self, name: str, value: object) -> None:
        """Store a value; readers see the old or the new one, never a part."""
        draft = self / f"{name}.json.{os.getpid()}"
        draft.write_text(json.dumps(value, indent=1))
        draft.replace(self / f"{name}.json")

    def read(self, name: str) -> Any:
        try:
            return json.loads((self / f"{name}.json").read_text())
        except (OSError, ValueError):
            return None

    def end_processes(self) -> None:
        """Kill every process of this cluster and wait until they are gone. Raises Refused."""
        deadline = time.monotonic() + PATIENCE
        while left := self.processes() | {one.pid for one in self.started() if one.alive()}:
            if time.monotonic() > deadline:
                raise Refused(f"these processes of {self.path} do not exit after SIGKILL: {sorted(left)}")
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
            _reap()
        _reap()

    def processes(self) -> set[int]:
        """Return the living processes, except this one, that carry this cluster's mark."""
        mark = f"{MARK}={self.path}".encode()
        return {pid for pid in living() if pid != os.getpid() and mark in environment(pid)}

    def empty(self) -> None:
        """Remove the folder's contents; the lock is on the folder itself."""
        for entry in self.path.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def remove(self) -> None:
        """Remove the empty folder, and the parent if it was the last cluster."""
        self.path.rmdir()
        with contextlib.suppress(OSError):
            root().rmdir()


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is created if necessary; the holder may remove it."""
    while (handle := _lock(folder)) is None:
        continue
    try:
        yield
    finally:
        os.close(handle)


def _lock(folder: Path) -> int | None:
    """Lock the folder; return None if it was removed meanwhile."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    fcntl.flock(handle, fcntl.LOCK_EX)
    with contextlib.suppress(FileNotFoundError):
        if os.fstat(handle).st_ino == folder.stat().st_ino:
            return handle
    os.close(handle)
    return None


def names() -> list[str]:
    return sorted(path.name for path in root().iterdir() if path.is_dir()) if root().is_dir() else []


def living() -> list[int]:
    return [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit() and birth(int(one.name))]


def birth(pid: int) -> int:
    """Return when a process started; 0 if it and all its threads have ended."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if not fields or (fields[0] in (b"Z", b"X") and _threads(pid) < 2):
        return 0
    return int(fields[19])


def _threads(pid: int) -> int:
    """Count threads: the first one of a killed process is a zombie while others still end and hold its ports."""
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir()))
    except OSError:
        return 0


def environment(pid: int) -> list[bytes]:
    """Return the environment that a process was started with; empty if we may not read it."""
    return _read(f"/proc/{pid}/environ").split(b"\0")


_children: list[subprocess.Popen[bytes]] = []


def _reap() -> None:
    """Reap our own children that have ended, and close the pipes to them."""
    for child in [child for child in _children if child.poll() is not None]:
        _children.remove(child)
        if child.stdin:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
