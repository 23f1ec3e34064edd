"""The files of a pod's folder: atomic JSON, the lock, a status that survives a full disk, the identity of a file."""

from __future__ import annotations

import fcntl
import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def read_json(path: str) -> Any:
    """Return the JSON in `path`; None if the file is missing or incomplete."""
    try:
        with open(path, "rb") as file:
            return json.loads(file.read())
    except (OSError, ValueError):
        return None


def write_json(path: str, value: object, reserved: str = "") -> None:
    """Replace the content of `path` atomically; with a `reserved` file, use its disk space and survive power loss."""
    temporary = reserved or f"{path}.tmp"
    # Without O_TRUNC, so that the blocks of the reserved file are used.
    fd = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        data = json.dumps(value).encode()
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.ftruncate(fd, len(data))
        if reserved:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temporary, path)
    if reserved:
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


def use_socket(method: Callable[[str], None], path: str) -> None:
    """Call `bind` or `connect` of a socket with a path of any length; the kernel allows only 108 bytes."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        method(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    finally:
        os.close(folder)


class StatusFile:
    """status.json; disk space for its last version is reserved at the start, in case the disk fills up later."""

    def __init__(self, pod_dir: str, reserve: int) -> None:
        self._path = f"{pod_dir}/status.json"
        self._reserved = f"{pod_dir}/status.last"
        fd = os.open(self._reserved, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        os.write(fd, bytes(reserve))
        os.fsync(fd)
        os.close(fd)

    def write(self, status: object) -> bool:
        """Write the status; return False if the disk is full and the old one stays."""
        try:
            write_json(self._path, status)
        except OSError:
            return False
        return True

    def write_last(self, status: object) -> None:
        """Write the final status in the reserved space, safe against power loss."""
        write_json(self._path, status, self._reserved)
        remove(f"{self._path}.tmp")


class LostOutput:
    """log.lost; how much output could not be written, in a file that can be written when the disk is full."""

    def __init__(self, pod_dir: str) -> None:
        self._path = f"{pod_dir}/log.lost"
        self._told = 0
        self._write(0)

    def tell(self, total: int) -> None:
        if total != self._told:
            self._told = total
            try:
                self._write(total)
            except OSError:
                pass  # this file system needs new space even for this: the last status has the total

    def _write(self, total: int) -> None:
        fd = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        os.write(fd, b"%20d" % total)  # always as long, in the same blocks
        os.close(fd)


def remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def take_lock(path: str) -> int | None:
    """Return a descriptor that holds the lock until every process has closed it; None if another process has it."""
    fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def take_lock_unless_launched(pod_dir: str, patience: float = 2.0) -> int | None:
    """Return the lock's descriptor; None if the pod has or had a supervisor already."""
    launched = f"{pod_dir}/supervisor.json"
    deadline = time.monotonic() + patience
    while not os.path.exists(launched) and time.monotonic() < deadline:
        lock = take_lock(f"{pod_dir}/lock")
        if lock is not None:
            return None if os.path.exists(launched) else lock
        time.sleep(0.005)  # `is_locked` may hold it for a moment
    return None


def is_locked(path: str) -> bool:
    """Return whether a process holds the lock on this file; a missing file is not locked."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def file_identity(path: str) -> tuple[int, int] | None:
    """Return a value that stays the same while a path names the same file; None if there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def file_version(path: str) -> tuple[int, int, int] | None:
    """Return a value that changes when a file is written or replaced; its time alone may not, within one clock tick."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
