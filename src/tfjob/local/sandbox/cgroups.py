"""Memory and CPU limits by control group, version 1 or 2, wherever this user may make one: found by doing it."""

from __future__ import annotations

import errno
import os
import signal
import time

from . import processes

_PREFIX = "tfjob-"
_PERIOD = 100_000  # microseconds of the CPU quota


class Cgroup:
    """The groups of one container run: one directory for both controllers (v2) or one for each (v1)."""

    def __init__(self, memory: str | None, cpu: str | None, problems: list[str]) -> None:
        self.memory = memory
        self.cpu = cpu
        self.problems = problems  # which limits are not set, and why

    @property
    def join_files(self) -> list[str]:
        """The files into which a process writes "0" to enter."""
        return [f"{path}/cgroup.procs" for path in self._directories()]

    def oom_kills(self) -> int:
        """How many processes the kernel killed for the memory limit."""
        if self.memory is None:
            return 0
        return _keyed(f"{self.memory}/memory.events", "oom_kill") or _keyed(
            f"{self.memory}/memory.oom_control", "oom_kill"
        )

    def peak(self) -> int:
        """The most memory ever used, in bytes; 0 where the kernel does not count it."""
        if self.memory is None:
            return 0
        return _number(f"{self.memory}/memory.peak") or _number(f"{self.memory}/memory.max_usage_in_bytes")

    def kill(self) -> None:
        """Kill what is left in the groups: a command that `exec` put there is nobody's child here."""
        for path in self.join_files:
            for pid in map(int, _words(path)):
                if pid:  # 0 is a process of a pid namespace that we do not see
                    processes.kill(pid, signal.SIGKILL)

    def remove(self, patience: float = 2.0) -> bool:
        """Remove the groups once their last process is gone; False when they stay busy for `patience` seconds."""
        deadline = time.monotonic() + patience
        removed = [_remove(path, deadline) for path in self._directories()]
        return all(removed)

    def _directories(self) -> set[str]:
        return {path for path in (self.memory, self.cpu) if path}


def create(name: str, memory: int, cpu: float) -> Cgroup:
    """Make groups with these limits (0 is none); a limit that cannot be set is named in `problems`."""
    problems: list[str] = []
    memory_path = _first("memory", name, str(memory), problems) if memory else None
    cpu_path = _first("cpu", name, str(cpu), problems) if cpu else None
    return Cgroup(memory_path, cpu_path, problems)


def sweep(uid: str) -> list[str]:
    """Remove the empty groups that a killed supervisor left behind for its pod; returns their names."""
    parents = {base for controller in ("memory", "cpu") for _, base in _bases(controller)}
    left = [f"{base}/{name}" for base in parents for name in os.listdir(base) if name.startswith(f"{_PREFIX}{uid}-")]
    return [os.path.basename(path) for path in left if _remove(path, 0.0)]


def join_files_of(pid: int | str) -> list[str]:
    """The files into which a process writes "0" to enter the groups that `create` made and `pid` is in."""
    places = {
        _directory(mount_point, root, path)
        for controller in ("memory", "cpu")
        for _, mount_point, root, path in _hierarchies(controller, pid)
        if os.path.basename(path).startswith(_PREFIX)
    }
    return [f"{place}/cgroup.procs" for place in sorted(places)]


def group_name(uid: str, container: str, attempt: int) -> str:
    return f"{_PREFIX}{uid}-{container}-{attempt}"


def _first(controller: str, name: str, limit: str, problems: list[str]) -> str | None:
    """Make the group at the first place that lets us."""
    problem = "this machine has none"
    for version, base in _bases(controller):
        path = f"{base}/{name}"
        try:
            if version == 2:
                _enable(base, controller)
            os.makedirs(path, exist_ok=True)
            for file, value, needed in _settings(version, controller, limit):
                _set(f"{path}/{file}", value, needed)
            _try_to_join(path)
        except OSError as error:
            problem = f"{error.filename or path}: {os.strerror(error.errno or 0)}"
            _remove(path, 0.0)
            continue
        return path
    problems.append(f"cannot create a {controller} cgroup: {problem}")
    return None


def _settings(version: int, controller: str, value: str) -> list[tuple[str, str, bool]]:
    """(file, value, needed) of a limit."""
    if controller == "cpu":
        quota = max(1000, int(float(value) * _PERIOD))
        if version == 2:
            return [("cpu.max", f"{quota} {_PERIOD}", True)]
        return [("cpu.cfs_period_us", str(_PERIOD), True), ("cpu.cfs_quota_us", str(quota), True)]
    if version == 2:  # no swap: a container over its limit must die, not crawl
        return [("memory.max", value, True), ("memory.swap.max", "0", False), ("memory.oom.group", "1", False)]
    return [("memory.limit_in_bytes", value, True), ("memory.memsw.limit_in_bytes", value, False)]


def _bases(controller: str) -> list[tuple[int, str]]:
    """(version, directory) of the groups in which we may try to make ours: our own and those above it."""
    found = []
    for version, mount_point, root, path in _hierarchies(controller):
        directory = _directory(mount_point, root, path)
        while directory.startswith(mount_point):
            if os.path.isdir(directory):
                found.append((version, directory))
            directory = os.path.dirname(directory)
    return found


def _directory(mount_point: str, root: str, path: str) -> str:
    """Where a group is to be found, if only the part of the tree below `root` is mounted."""
    relative = path[len(root.rstrip("/")) :] if path.startswith(root) else "/"
    return os.path.normpath(f"{mount_point}/{relative}")


def _hierarchies(controller: str, pid: int | str = "self") -> list[tuple[int, str, str, str]]:
    """(version, mount point, root of the mount, the group of `pid`) where `controller` lives."""
    try:
        with open("/proc/self/mountinfo") as file:
            mounts = [line.split() for line in file]
        with open(f"/proc/{pid}/cgroup") as file:
            groups = [line.rstrip("\n").split(":", 2) for line in file]
    except FileNotFoundError:
        return []
    found = []
    for fields in mounts:
        kind, options = fields[fields.index("-") + 1], fields[-1].split(",")
        root, mount_point = fields[3], fields[4]
        for _, controllers, path in groups:
            if kind == "cgroup2" and not controllers and controller in _words(f"{mount_point}/cgroup.controllers"):
                found.append((2, mount_point, root, path))
            elif kind == "cgroup" and controller in options and controller in controllers.split(","):
                found.append((1, mount_point, root, path))
    return sorted(found, reverse=True)


def _enable(base: str, controller: str) -> None:
    if controller not in _words(f"{base}/cgroup.subtree_control"):
        _set(f"{base}/cgroup.subtree_control", f"+{controller}", needed=True)


def _set(path: str, value: str, needed: bool) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)
    except OSError as error:
        if needed:
            raise OSError(error.errno, os.strerror(error.errno or 0), path) from error


def _try_to_join(path: str) -> None:
    """Having made a group does not mean that one may enter it (version 2 also asks the common ancestor)."""
    pid = os.fork()
    if pid == 0:
        try:
            _set(f"{path}/cgroup.procs", "0", needed=True)
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 1)
    _, status = os.waitpid(pid, 0)
    number = os.waitstatus_to_exitcode(status)
    if number:
        raise OSError(abs(number), os.strerror(abs(number)), f"{path}/cgroup.procs")


def _remove(path: str, deadline: float) -> bool:
    while True:
        try:
            os.rmdir(path)
            return True
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                return False
        time.sleep(0.01)  # the kernel lets go of a dead process a moment after its parent heard of it


def _words(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().split()
    except OSError:
        return []


def _number(path: str) -> int:
    words = _words(path)
    return int(words[0]) if words and words[0].isdigit() else 0


def _keyed(path: str, key: str) -> int:
    words = _words(path)
    return int(words[words.index(key) + 1]) if key in words else 0
