"""The processes of this machine: their parents, their memory, and which of them carry the mark of a pod.

This is read from /proc where it exists, and from `ps` elsewhere (macOS; not tested there).

/proc shows a process's arguments and environment variables from memory that is laid out at exec. A forked process
overwrites its copy, as far as there is room, so that it looks as if its program had been started with exec and can be
found by the mark of its pod.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MARK = "TFJOB_POD"
"""The environment variable that every process of a pod carries; its value is the pod's uid."""
_HAS_PROC = os.path.isdir("/proc/self")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
ROOM = " " * 2048
"""A last argument that gives the forks of a process room for their own arguments."""
BLANK_MARK = "0" * 98304
"""The value of the mark in a process whose forks will overwrite it with their environment variables."""
_ARG_START, _ENV_START = 45, 47  # fields of stat, counted from the state; the end is the next field


def table() -> dict[int, tuple[int, int]]:
    """Return pid -> (parent, resident bytes) of every visible process."""
    if not _HAS_PROC:
        rows = (line.split() for line in _ps("ax", "pid=,ppid=,rss="))
        return {int(pid): (int(parent), int(rss) * 1024) for pid, parent, rss in rows}
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat(int(name))
            if fields:
                found[int(name)] = int(fields[1]), int(fields[21]) * _PAGE
    return found


def descendants(pid: int) -> dict[int, int]:
    """Return pid -> resident bytes of every child, grandchild ... of `pid`."""
    return descendants_of([pid])[pid]


def descendants_of(pids: list[int]) -> dict[int, dict[int, int]]:
    """Return the descendants of several processes from one process table."""
    children: dict[int, list[int]] = {}
    everyone = table()
    for child, (parent, _) in everyone.items():
        children.setdefault(parent, []).append(child)
    found: dict[int, dict[int, int]] = {pid: {} for pid in pids}
    for pid, below in found.items():
        todo = list(children.get(pid, ()))
        while todo:
            child = todo.pop()
            below[child] = everyone[child][1]
            todo.extend(children.get(child, ()))
    return found


def proportional_memory(pid: int) -> int | None:
    """Return the memory in bytes, with shared pages divided among their users; None if unknown."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as rollup:
            for line in rollup:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def start_time(pid: int) -> int | None:
    """Return when a process began, in kernel ticks since boot; together with the pid, this identifies one process."""
    fields = _stat(pid) if _HAS_PROC else None
    return int(fields[19]) if fields else None


def cpu_seconds(pid: int) -> float | None:
    """Return the CPU time of a process and of its children that have ended; None if unknown."""
    fields = _stat(pid) if _HAS_PROC else None
    return sum(map(int, fields[11:15])) / _TICKS if fields else None


def marked(uid: str) -> list[int]:
    """Return the processes that carry the mark of pod `uid`, except this one."""
    if not _HAS_PROC:
        rows = (line.split() for line in _ps("axeww", "pid=,command="))
        return [int(row[0]) for row in rows if f"{MARK}={uid}" in row[1:] and int(row[0]) != os.getpid()]
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if pid != os.getpid() and is_marked(pid, uid)]


def is_marked(pid: int, uid: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            return f"{MARK}={uid}".encode() in environ.read().split(b"\0")
    except OSError:
        return False


def sweep(uid: str) -> None:
    for _ in range(100):  # a process may fork while we look
        pids = [pid for pid in marked(uid) if not is_zombie(pid)]
        if not pids:
            return
        for pid in pids:
            kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def is_zombie(pid: int) -> bool:
    fields = _stat(pid) if _HAS_PROC else None
    return fields is not None and fields[0] == "Z"


def kill(pid: int, number: int) -> None:
    """Send a signal; a process that is gone or belongs to another user is not an error."""
    if pid <= 0:
        raise ValueError(f"{pid} is not a process id: the signal would go to a process group")
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def reap_one(*, block: bool) -> tuple[int, int] | None:
    """Return the pid and wait status of a child that has ended; None if there is none."""
    try:
        pid, status = os.waitpid(-1, 0 if block else os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def fork_for(action: Callable[[], object], fork: Callable[[], int] = os.fork) -> int:
    """Fork a child that runs `action` and exits with the errno of its failure; return its pid."""
    child = fork()
    if child == 0:
        try:
            action()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 255)
    return child


def check_child(child: int, problem: str) -> None:
    """Wait for a child of `fork_for`; raise its error."""
    number = abs(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if number:
        raise OSError(number, f"{problem}: {os.strerror(number)}")


def _stat(pid: int | str) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the name (which may contain blanks): state, parent, ..."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def _ps(flags: str, columns: str) -> list[str]:
    with os.popen(f"ps {flags} -o {columns}") as output:  # noqa: S605 -- our own words
        return output.read().splitlines()


def show_words(argv: list[str]) -> None:
    start, length = _born_with(_ARG_START)
    if length:
        words = b"".join(os.fsencode(word) + b"\0" for word in argv)
        ctypes.memmove(start, words[: length - 1].ljust(length, b"\0"), length)


def show_variables(env: dict[str, str]) -> None:
    """Write these over the blank mark with which this process was started, the pod's mark first.

    The other variables in that memory stay: libraries may hold pointers to them, and their values are the same.
    """
    start, length = _born_with(_ENV_START)
    blank = f"{MARK}={BLANK_MARK}".encode()
    at = ctypes.string_at(start, length).find(blank) if length else -1
    if at >= 0:
        room = b""
        for name in sorted(env, key=lambda name: name != MARK):
            entry = os.fsencode(f"{name}={env[name]}") + b"\0"
            room += entry if len(room) + len(entry) <= len(blank) else b""
        ctypes.memmove(start + at, room.ljust(len(blank), b"\0"), len(blank))


def _born_with(field: int) -> tuple[int, int]:
    """Return the address and the length of the memory that two fields of stat delimit; (0, 0) if unknown."""
    fields = _stat("self")
    start, end = map(int, fields[field : field + 2]) if fields else (0, 0)
    return start, end - start if start else 0
