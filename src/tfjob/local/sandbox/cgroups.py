"""Memory and CPU limits with cgroups, version 1 or 2, wherever this user can create one."""

from __future__ import annotations

import errno
import os
import signal
import time

from . import processes

_PREFIX = "tfjob-"
_PERIOD = 100_000  # microseconds of the CPU quota


class Cgroup:
    """The cgroups of one container run: one for both controllers (v2) or one for each (v1)."""

    def __init__(self, memory: str | None, cpu: str | None, problems: list[str]) -> None:
        self.memory = memory
        self.cpu = cpu
        self.problems = problems  # which limits are not set, and why

    @property
    def join_files(self) -> list[str]:
        """The files to which a process writes "0" to enter."""
        return [f"{path}/cgroup.procs" for path in self._folders()]

    def oom_kills(self) -> int:
        return self._memory_counter("oom_kill", "memory.events", "memory.oom_control")

    def peak(self) -> int:
        """Return the highest memory use in bytes; 0 if the kernel does not count it."""
        return self._memory_counter("", "memory.peak", "memory.max_usage_in_bytes")

    def _memory_counter(self, key: str, *files: str) -> int:
        """Return the number after `key` in the first of these files that has it; 0 if none has."""
        for file in files if self.memory else ():
            words = ["", *_words(f"{self.memory}/{file}")]
            if key in words[:-1]:
                return int(words[words.index(key) + 1])
        return 0

    def kill(self) -> None:
        """Kill the processes that are left, such as commands of `exec`, which are not descendants of the init."""
        for path in self.join_files:
            for pid in map(int, _words(path)):
                if pid:  # 0 is a process of an invisible pid namespace
                    processes.kill(pid, signal.SIGKILL)

    def remove(self, patience: float = 2.0) -> bool:
        """Remove the cgroups once their last process has ended; return False if they stay busy for too long."""
        deadline = time.monotonic() + patience
        removed = [_remove(path, deadline) for path in self._folders()]
        return all(removed)

    def _folders(self) -> set[str]:
        return {path for path in (self.memory, self.cpu) if path}


def create(name: str, memory: int, cpu: float) -> Cgroup:
    """Create cgroups with these limits (0 is unlimited); `problems` lists the limits that could not be set."""
    problems: list[str] = []
    memory_path = _first("memory", name, str(memory), problems) if memory else None
    cpu_path = _first("cpu", name, str(cpu), problems) if cpu else None
    return Cgroup(memory_path, cpu_path, problems)


def sweep(uid: str) -> None:
    """Remove the empty cgroups that a killed supervisor left behind for its pod."""
    for base in {base for controller in ("memory", "cpu") for _, base in _bases(controller)}:
        for name in os.listdir(base):
            if name.startswith(f"{_PREFIX}{uid}-"):
                _remove(f"{base}/{name}", 0.0)


def join_files_of(pid: int | str) -> list[str]:
    """Return the files to which a process writes "0" to enter the cgroups that `create` made and `pid` is in."""
    places = {
        _folder(mount_point, root, path)
        for controller in ("memory", "cpu")
        for _, mount_point, root, path in _hierarchies(controller, pid)
        if os.path.basename(path).startswith(_PREFIX)
    }
    return [f"{place}/cgroup.procs" for place in sorted(places)]


def group_name(uid: str, container: str, attempt: int) -> str:
    return f"{_PREFIX}{uid}-{container}-{attempt}"


def _first(controller: str, name: str, limit: str, problems: list[str]) -> str | None:
    problem = "this machine has none"
    for version, base in _bases(controller):
        path = f"{base}/{name}"
        try:
            if version == 2 and controller not in _words(f"{base}/cgroup.subtree_control"):
                _set(f"{base}/cgroup.subtree_control", f"+{controller}", needed=True)
            os.makedirs(path, exist_ok=True)
            for file, value, needed in _settings(version, controller, limit):
                _set(f"{path}/{file}", value, needed)
            _try_to_join(path)
        except OSError as error:
            problem = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
            _remove(path, 0.0)
            continue
        return path
    problems.append(f"cannot create a {controller} cgroup: {problem}")
    return None


def _settings(version: int, controller: str, value: str) -> list[tuple[str, str, bool]]:
    if controller == "cpu":
        quota = max(1000, int(float(value) * _PERIOD))
        if version == 2:
            return [("cpu.max", f"{quota} {_PERIOD}", True)]
        return [("cpu.cfs_period_us", str(_PERIOD), True), ("cpu.cfs_quota_us", str(quota), True)]
    if version == 2:  # no swap: a container over its limit must be killed, not slowed down
        return [("memory.max", value, True), ("memory.swap.max", "0", False), ("memory.oom.group", "1", False)]
    return [("memory.limit_in_bytes", value, True), ("memory.memsw.limit_in_bytes", value, False)]


def _bases(controller: str) -> list[tuple[int, str]]:
    """Return (version, folder) of the cgroups to try as parents: this process's own and those above it."""
    found = []
    for version, mount_point, root, path in _hierarchies(controller):
        folder = _folder(mount_point, root, path)
        while folder.startswith(mount_point):
            if os.path.isdir(folder):
                found.append((version, folder))
            folder = os.path.dirname(folder)
    return found


def _folder(mount_point: str, root: str, path: str) -> str:
    """Return the folder of a cgroup, if only the part of the tree below `root` is mounted."""
    relative = path[len(root.rstrip("/")) :] if path.startswith(root) else "/"
    return os.path.normpath(f"{mount_point}/{relative}")


def _hierarchies(controller: str, pid: int | str = "self") -> list[tuple[int, str, str, str]]:
    """Return (version, mount point, root of the mount, cgroup of `pid`) of each hierarchy with this controller."""
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


def _set(path: str, value: str, needed: bool) -> None:
    try:
        with open(path, "r+b", buffering=0) as file:
            file.write(value.encode())
    except OSError as error:
        if needed:
            raise OSError(error.errno, os.strerror(error.errno or 0), path) from error


def _try_to_join(path: str) -> None:
    """Enter the cgroup in a child: version 2 also checks the rights for the common ancestor."""
    file = f"{path}/cgroup.procs"
    processes.check_child(processes.fork_for(lambda: _set(file, "0", needed=True)), file)


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
        time.sleep(0.01)  # a process leaves its cgroup a moment after its parent has been notified


def _words(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().split()
    except OSError:
        return []
