"""What this machine allows pods to do. Each capability is tried in a child process: settings alone prove nothing."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile

from . import bind_rewrite, cgroups, processes, supervisor, syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .pod_spec import Level

_PROBE_IP = "127.77.255.254"


class Capability:
    """One thing that a pod may need; if it is missing, the reason and how to fix it."""

    def __init__(self, title: str, problem: str = "", fix: str = "") -> None:
        self.title = title
        self.ok = not problem
        self.problem = problem
        self.fix = fix


class Probing:
    """A running probe; it is a separate process (about 0.1 s), so that a command can continue meanwhile."""

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-S", "-c", supervisor.program("sandbox.capabilities", "print_problems")]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/")

    def problems(self, patience: float = 60.0) -> dict[str, list[Any]]:
        """Return [errno, text] of each capability; raise OSError, ValueError or SubprocessError if the probe fails."""
        try:
            output, _ = self._process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise
        if self._process.returncode:
            raise subprocess.CalledProcessError(self._process.returncode, self._process.args)
        found: dict[str, list[Any]] = json.loads(output)
        return found


_begun: list[Probing] = []


def begin() -> None:
    try:
        _begun.append(Probing())
    except OSError:
        pass  # `probe` retries and reports the problem


def probe() -> dict[str, Capability]:
    """Return the capabilities by name, in the order in which `tfjob doctor` shows them."""
    try:
        problems = (_begun.pop() if _begun else Probing()).problems()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        problems = {name: [0, f"the probe failed: {error}"] for name in _PROBES}
    return {
        name: Capability(title, problems[name][1], _fix(name, problems[name][0]) if problems[name][1] else "")
        for name, (title, _) in _PROBES.items()
    }


def level(found: dict[str, Capability]) -> Level:
    if not (found["seccomp_notify"].ok and found["loopback"].ok):
        return "ports"
    return "full" if found["mount_namespace"].ok and found["pid_namespace"].ok else "addresses"


def shortfall(found: dict[str, Capability]) -> str:
    """Return why the level is not `full`; empty if it is."""
    needed = [found[name] for name in ("mount_namespace", "pid_namespace", "seccomp_notify", "loopback")]
    return "; ".join(f"no {one.title}: {one.problem}" for one in needed if not one.ok)


def print_problems() -> None:
    """Print, as JSON, the errno and the text of each capability's problem."""
    syscalls.restore_signals()  # with SIGCHLD ignored, the kernel would not report how children end
    json.dump({name: _attempt(trial) for name, (_, trial) in _PROBES.items()}, sys.stdout)


def _attempt(trial: Callable[[], None], patience: float = 5.0) -> tuple[int, str]:
    """Run a trial in a child process; return its errno and error text, or (0, "") if it works."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        number, text = 0, ""
        try:
            trial()
        except OSError as error:
            number, text = error.errno or 0, error.strerror or str(error)
        except BaseException as error:
            text = repr(error)
        os.write(writer, json.dumps([number, text]).encode())
        os._exit(0)
    os.close(writer)
    answered, _, _ = select.select([reader], [], [], patience)
    answer = os.read(reader, 65536) if answered else json.dumps([0, f"no result after {patience:g} s"]).encode()
    os.close(reader)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    number, text = json.loads(answer or b'[0, "the test process died"]')
    return number, text


def _enter(flags: int) -> None:
    if os.geteuid() == 0:
        syscalls.unshare(flags)
    else:
        syscalls.enter_user_namespace(flags)


def _try_mount_namespace() -> None:
    _linux_only()
    _enter(syscalls.NEWNS | syscalls.NEWUTS | syscalls.NEWIPC)
    syscalls.make_private()
    folder = tempfile.mkdtemp(prefix="tfjob-probe-")
    cleaner = os.open(os.path.dirname(folder), os.O_RDONLY)
    try:
        syscalls.mount("tmpfs", folder, "tmpfs", 0, "size=64k")
        os.mkdir(f"{folder}/usr")
        syscalls.bind("/usr", f"{folder}/usr")
        syscalls.make_read_only(f"{folder}/usr")
        syscalls.set_hostname("probe")
        syscalls.pivot_root(folder)
    finally:
        os.rmdir(os.path.basename(folder), dir_fd=cleaner)


def _try_pid_namespace() -> None:
    """Enter a namespace for the pod and, in it, one for the container, each with its own /proc."""
    _linux_only()
    _enter(syscalls.NEWPID | syscalls.NEWNS)
    syscalls.make_private()
    processes.check_child(processes.fork_for(_mount_proc_twice), "cannot mount a new /proc")


def _mount_proc_twice() -> None:
    _mount_proc()
    processes.check_child(processes.fork_for(_mount_proc, syscalls.fork_in_new_pid_namespace), "/proc")


def _mount_proc() -> None:
    syscalls.unshare(syscalls.NEWNS)
    syscalls.mount("proc", "/proc", "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)


def _try_seccomp_notify() -> None:
    """Check that a child that binds the wildcard address gets the pod's address."""
    _linux_only()
    ours, theirs = socket.socketpair()
    with socket.socket() as finder:
        finder.bind((_PROBE_IP, 0))
        port = finder.getsockname()[1]

    def bind_wildcard() -> None:
        bind_rewrite.install_filter(theirs, b"x")
        server = socket.socket()
        server.bind(("0.0.0.0", port))  # noqa: S104 -- this address is rewritten
        if server.getsockname()[0] != _PROBE_IP:
            raise OSError(errno.EADDRNOTAVAIL, "")

    child = processes.fork_for(bind_wildcard)
    theirs.close()
    _, listeners, _, _ = socket.recv_fds(ours, 1, 1)
    for listener in listeners:
        bind_rewrite.BindRewriter(_PROBE_IP).answer(listener)
    processes.check_child(child, "bind(0.0.0.0) was not rewritten")


def _try_loopback() -> None:
    with socket.socket() as one:
        one.bind((_PROBE_IP, 0))


def _try_cgroup(memory: int, cpu: float) -> None:
    group = cgroups.create(cgroups.group_name("probe", str(os.getpid()), 0), memory, cpu)
    group.remove()
    if group.problems:
        raise OSError(errno.EACCES, group.problems[0])


def _linux_only() -> None:
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "needs Linux")


_PROBES: dict[str, tuple[str, Callable[[], None]]] = {
    "mount_namespace": ("mount namespaces", _try_mount_namespace),
    "pid_namespace": ("pid namespaces with their own /proc", _try_pid_namespace),
    "seccomp_notify": ("bind rewriting with seccomp", _try_seccomp_notify),
    "loopback": ("pod addresses in 127.0.0.0/8", _try_loopback),
    "memory_cgroup": ("memory limits with cgroups", lambda: _try_cgroup(64 << 20, 0)),
    "cpu_cgroup": ("CPU limits with cgroups", lambda: _try_cgroup(0, 1.0)),
}


def _fix(name: str, number: int) -> str:
    if sys.platform != "linux":
        return "nothing to do: pods share 127.0.0.1, and each gets its own port; everything else works"
    if name in ("mount_namespace", "pid_namespace"):
        return _namespace_fix(number)
    if name == "seccomp_notify":
        return "use Linux 5.6 or newer; if this is a container, start it with --security-opt seccomp=unconfined"
    if name == "loopback":
        return "sudo ip link set lo up"
    return (
        "run as root; otherwise tfjob enforces memory limits by checking every 0.25 s, and does not enforce CPU limits"
    )


def _namespace_fix(number: int) -> str:
    if number == errno.ENOSYS:
        return "use Linux 5.12 or newer"
    if _setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    if _setting("kernel/unprivileged_userns_clone") == "0":
        return "sudo sysctl kernel.unprivileged_userns_clone=1"
    if number == errno.ENOSPC or _setting("user/max_user_namespaces") == "0":
        return "sudo sysctl user.max_user_namespaces=10000"
    return (
        "if this is a container, start it with --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
        "--security-opt systempaths=unconfined, or with --privileged"
    )


def _setting(name: str) -> str:
    """Return a kernel setting; it only selects the advice, not the result of the probe."""
    try:
        with open(f"/proc/sys/{name}") as file:
            return file.read().strip()
    except OSError:
        return ""
