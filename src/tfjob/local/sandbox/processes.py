"""The processes of this machine: their parents, their memory, and which of them carry the mark of a pod.

Read from /proc where it exists, from `ps` elsewhere (macOS; not tested there).

The arguments and environment variables that other processes read in /proc are in memory that a process is born with. A
forked process writes over its copy, as far as there is room, so that it looks like one that was started as its program
and is found by the mark of its pod.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time

MARK = "TFJOB_POD"
"""The environment variable that every process of a pod carries; its value is the pod's uid."""
_HAS_PROC = os.path.isdir("/proc/self")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
ROOM = " " * 2048
"""A last word for a process whose forks will write over its words."""
BLANK_MARK = "0" * 98304
"""The value of the mark in a process whose forks will write their variables over it."""
_ARG_START, _ENV_START = 45, 47  # fields of stat, counted from the state; the ends follow


def table() -> dict[int, tuple[int, int]]:
    """pid -> (parent, resident bytes) of every process that is visible here."""
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
    """pid -> resident bytes of every child, grandchild ... of `pid`."""
    return descendants_of([pid])[pid]


def descendants_of(pids: list[int]) -> dict[int, dict[int, int]]:
    """The same of several processes, by one look at the machine."""
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
    """Bytes of memory with shared pages counted in part; None where the kernel does not say."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as rollup:
            for line in rollup:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def start_time(pid: int) -> int | None:
    """When a process began, in kernel ticks since boot: with the pid it names one process for ever."""
    fields = _stat(pid) if _HAS_PROC else None
    return int(fields[19]) if fields else None


def cpu_seconds(pid: int) -> float | None:
    """What a process has used of the CPU, with its children that have ended; None where the kernel does not say."""
    fields = _stat(pid) if _HAS_PROC else None
    return sum(map(int, fields[11:15])) / _TICKS if fields else None


def marked(uid: str) -> list[int]:
    """The processes that carry the mark of pod `uid`, this one excepted."""
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


def sweep(uid: str) -> int:
    """Kill every process that still carries the mark of pod `uid`; returns how many there were."""
    killed: set[int] = set()
    for _ in range(100):  # a process may fork while we look
        pids = [pid for pid in marked(uid) if not is_zombie(pid)]
        if not pids:
            break
        for pid in pids:
            kill(pid, signal.SIGKILL)
        killed.update(pids)
        time.sleep(0.005)
    return len(killed)


def is_zombie(pid: int) -> bool:
    """Whether a process has ended and only waits for its parent to notice."""
    fields = _stat(pid) if _HAS_PROC else None
    return fields is not None and fields[0] == "Z"


def kill(pid: int, number: int) -> None:
    """Send a signal; a process that is gone or not ours is no error."""
    if pid <= 0:
        raise ValueError(f"{pid} is not a process id: the signal would go to a process group")
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the name (which may hold blanks): state, parent, ..."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def _ps(*arguments: str) -> list[str]:
    flags, columns = arguments
    with os.popen(f"ps {flags} -o {columns}") as output:  # noqa: S605 -- our own words
        return output.read().splitlines()


def show_words(argv: list[str]) -> None:
    start, length = _born_with(_ARG_START)
    if length:
        words = b"".join(os.fsencode(word) + b"\0" for word in argv)
        ctypes.memmove(start, words[: length - 1].ljust(length, b"\0"), length)


def show_variables(env: dict[str, str]) -> None:
    """Show these, the mark first, in a process that was born with a blank one; without /proc nothing changes.

    What else it was born with stays: libraries may hold on to it, and it says the same.
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
    """The address and the length of a piece of memory that stat tells of; no length if it does not."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[field]), int(fields[field + 1])
    except (OSError, ValueError, IndexError):
        return 0, 0
    return start, end - start if start else 0
