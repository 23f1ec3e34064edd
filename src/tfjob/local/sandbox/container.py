"""One run of one container: its init, its workload, and the channel on which they report to the supervisor.

    supervisor -> init (reaps, relays signals; PID 1 of the container's pid namespace) -> workload (own session)

The workload is never PID 1: as such it would not die of SIGTERM by default. The init outlives it just long enough to
report how it ended and to kill everything that it left behind.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import socket
import sys
import time

from . import bind_rewrite, lifecycle, processes, rootfs, syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from .pod_spec import Mount, WarmProgram

_LINUX = sys.platform == "linux"
_KILL_ALL = signal.SIGUSR1  # to the init: kill everything in the container
_ORPHANED = signal.SIGUSR2  # to the init, from the kernel: its supervisor is gone
_INIT_SIGNALS = {signal.SIGCHLD, signal.SIGTERM, _KILL_ALL}


class ContainerPlan:
    """What a container needs to start; every path is the host's."""

    def __init__(
        self,
        *,
        uid: str,
        hostname: str,
        argv: list[str],
        shown_argv: list[str],
        env: dict[str, str],
        cwd: str,
        namespaces: bool,
        rewrite_binds: bool,
        root_dir: str = "",
        cgroup_files: list[str] | None = None,
        host_proc: int | None = None,
    ) -> None:
        self.uid = uid
        self.hostname = hostname
        self.argv = argv
        self.shown_argv = shown_argv  # as people may see it: without what a Secret holds
        self.env = env
        self.cwd = cwd or "/"
        self.namespaces = namespaces
        self.rewrite_binds = rewrite_binds
        self.root_dir = root_dir
        self.mounts: list[Mount] = []
        self.cgroup_files = cgroup_files or []
        self.host_proc = host_proc  # the host's /proc, for the workload's pid as the host sees it
        self.warm: WarmProgram | None = None  # what a fork of a fork server becomes instead of running argv


class Container:
    """A container as the supervisor holds it; `channel` and `output` are to be polled."""

    def __init__(self, pid: int, channel: socket.socket, output: int) -> None:
        self.pid = pid  # of the init
        self.channel = channel
        self.output = output  # the workload's stdout and stderr in one pipe: their order is kept
        self._received = b""

    def terminate(self) -> None:
        processes.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill every process of the container; its init still reports how the workload ended."""
        processes.kill(self.pid, _KILL_ALL)

    def kill_init(self) -> None:
        """The last resort, when the init itself does not answer."""
        processes.kill(self.pid, signal.SIGKILL)

    def kill_all(self) -> None:
        """Kill its init with all that descends from it, also what has not come as far as to die with its parent."""
        for pid in (*processes.descendants(self.pid), self.pid):
            processes.kill(pid, signal.SIGKILL)

    def receive(self) -> tuple[list[dict[str, Any]], list[int], bool]:
        """The events and descriptors that have arrived, and whether the channel is still open."""
        try:
            data, fds, _, _ = socket.recv_fds(self.channel, 65536, 1)
        except BlockingIOError:
            return [], [], True
        except ConnectionResetError:
            data, fds = b"", []
        *lines, self._received = (self._received + data).split(b"\n")
        return [json.loads(line) for line in lines], fds, bool(data)

    def close(self) -> None:
        self.channel.close()
        os.close(self.output)


def start(plan: ContainerPlan) -> Container:
    """Fork the container's init, which reports on the channel:

    {"pid": the workload's, as the host sees it}, {"started": time} or {"error": text, "code": n}, {"cold": reason} if
    a warm start became a cold one, {"exited": wait status, "at": time} when the workload's main process ended,
    {"cpu": seconds, "peak": bytes} when all are gone.
    """
    supervisor = os.getpid()
    fork = syscalls.fork_in_new_pid_namespace if plan.namespaces else os.fork
    return _fork(fork, lambda channel, output: _init(plan, channel, output, supervisor))


def start_inside(plan: ContainerPlan, init: int) -> Container:
    """Fork a process that runs a further command in the container of `init`, waits for it and ends with its code."""
    supervisor = os.getpid()
    return _fork(os.fork, lambda channel, output: _enter(plan, channel, output, init, supervisor))


def _fork(fork: Callable[[], int], child: Callable[[socket.socket, int], NoReturn]) -> Container:
    ours, theirs = socket.socketpair()
    output, their_output = os.pipe()
    pid = fork()
    if pid == 0:
        child(theirs, their_output)
    theirs.close()
    os.close(their_output)
    ours.setblocking(False)
    os.set_blocking(output, False)
    return Container(pid, ours, output)


# In the init


class Become(BaseException):
    """Raised in a workload that is to become its program in this very process: out of the supervisor's code, up to
    whoever forked the supervisor, so that nothing of it stays below the program.
    """

    def __init__(self, plan: ContainerPlan, channel: socket.socket, errors: int, init: int) -> None:
        super().__init__()
        self.plan = plan
        self._channel = channel
        self._errors = errors
        self._init = init

    def keep_open(self) -> list[int]:
        """The descriptors that are still needed."""
        return [self._channel.fileno(), self._errors]

    def alive(self) -> None:
        """The next line is the program's own."""
        os.close(self._errors)
        self._errors = -1

    def start_cold(self, reason: str) -> NoReturn:
        """Run the command itself after all, in any thread; what the program has done so far is done again."""
        _send(self._channel, {"cold": reason})
        try:
            if _LINUX and not self.plan.namespaces:
                _tie_to_parent(self._init)  # the thread that calls exec lives on, and only the first one was tied
            _prepare_exec(self.plan)
            _exec(self.plan)
        except _StartError as error:
            if self._errors >= 0:
                os.write(self._errors, _failure(error))
            else:  # the pipe is closed once the program has started
                os.write(2, f"{error}\n".encode(errors="replace"))
            os._exit(error.code)


class _StartError(Exception):
    """The container cannot start; `code` as a shell or a container runtime gives it."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def _init(plan: ContainerPlan, channel: socket.socket, output: int, supervisor: int) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_BLOCK, _INIT_SIGNALS)
        # The supervisor's lock must not live on in us, nor another container's pipe.
        close_all_but(channel.fileno(), output, plan.host_proc)
        if _LINUX:
            syscalls.set_process_name("tfjob-init")
        if _LINUX and not plan.namespaces:
            syscalls.become_subreaper()
            signal.signal(_ORPHANED, lambda *_: _end_orphaned())
            _tie_to_parent(supervisor, _ORPHANED)
        workload = _start_workload(plan, channel, output)
        _send(channel, {"started": time.time()})
        os.close(output)  # the supervisor must see its end
        status = _wait_for(workload, plan.namespaces)
        _send(channel, {"exited": status, "at": time.time()})
        _kill_rest(plan.namespaces)
        while _reap_one(block=True) is not None:
            _kill_rest(plan.namespaces)
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        _send(channel, {"cpu": usage.ru_utime + usage.ru_stime, "peak": usage.ru_maxrss * 1024})
        os._exit(0)
    except Become:
        raise
    except _StartError as error:
        _send(channel, {"error": str(error), "code": error.code})
    except BaseException as error:  # nothing may escape into the supervisor's own code
        _send(channel, {"error": f"the container's init process failed: {error!r}", "code": 128})
    os._exit(1)


def _start_workload(plan: ContainerPlan, channel: socket.socket, output: int) -> int:
    """Fork the workload and return its pid once it has become the program it should be."""
    try:
        cgroups = _open_cgroups(plan)
        if plan.namespaces:
            syscalls.unshare(syscalls.NEWNS | syscalls.NEWUTS | syscalls.NEWIPC)
            syscalls.set_hostname(plan.hostname[:63])
            syscalls.pivot_root(rootfs.build(plan.root_dir, plan.mounts, fresh_proc=True, keep=[plan.cwd]))
    except OSError as error:
        raise _StartError(128, error.strerror or str(error)) from error
    reader, writer = os.pipe()  # closed by a successful exec
    init = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _workload(plan, channel, output, cgroups, writer, init)
    os.close(writer)
    with open(reader, "rb") as pipe:
        failure = pipe.read()
    for fd in cgroups:
        os.close(fd)
    if failure:
        os.waitpid(pid, 0)
        code, _, text = failure.decode(errors="replace").partition(" ")
        raise _StartError(int(code), text)
    return pid


def _open_cgroups(plan: ContainerPlan) -> list[int]:
    return [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in plan.cgroup_files]


def _wait_for(workload: int, namespaces: bool) -> int:
    """Relay signals and reap orphans until the workload's main process ends; returns its wait status."""
    # In a pid namespace the kernel sees to orphans, and that signal could only be the program's own.
    awaited = _INIT_SIGNALS if namespaces else {*_INIT_SIGNALS, _ORPHANED}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)  # sigwait would not let its handler run
    while True:
        number = signal.sigwait(awaited)
        if number == _ORPHANED:
            _end_orphaned()
        elif number == signal.SIGTERM:
            os.kill(workload, signal.SIGTERM)
        elif number == _KILL_ALL:
            _kill_rest(namespaces)
        while reaped := _reap_one(block=False):
            if reaped[0] == workload:
                return reaped[1]


def _reap_one(*, block: bool) -> tuple[int, int] | None:
    try:
        pid, status = os.waitpid(-1, 0 if block else os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def _kill_rest(namespaces: bool) -> None:
    if namespaces:
        try:
            os.kill(-1, signal.SIGKILL)  # everything in this pid namespace but ourselves
        except ProcessLookupError:
            pass
        return
    for pid in processes.descendants(os.getpid()):
        processes.kill(pid, signal.SIGKILL)


def _end_orphaned() -> NoReturn:
    """Without a pid namespace nobody else ends what the workload has started and left behind."""
    _kill_rest(namespaces=False)
    while _reap_one(block=True) is not None:
        _kill_rest(namespaces=False)
    os._exit(1)


def _tie_to_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """Without a pid namespace: get a signal when the parent dies."""
    syscalls.die_with_parent(number)
    if os.getppid() != parent:
        os._exit(1)  # it died before we asked


def close_all_but(*keep: int | None) -> None:
    """Keep standard input, output and errors and these; nothing else of our parents may live on in us."""
    start = 3
    for fd in sorted(fd for fd in keep if fd is not None):
        os.closerange(start, fd)
        start = fd + 1
    os.closerange(start, max(start, 4096))


def _send(channel: socket.socket, event: dict[str, object]) -> None:
    try:
        channel.sendall(json.dumps(event).encode() + b"\n")
    except OSError:
        pass  # the supervisor is gone, and we are about to follow


# In a process that enters the container


def _enter(plan: ContainerPlan, channel: socket.socket, output: int, init: int, supervisor: int) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        close_all_but(channel.fileno(), output, plan.host_proc)
        if _LINUX and not plan.namespaces:
            _tie_to_parent(supervisor)
        cgroups = _open_cgroups(plan)
        if plan.namespaces:
            syscalls.enter_namespaces(init)
        parent = os.getpid()
        command = os.fork()  # only a child is in the pid namespace
        if command == 0:
            _workload(plan, channel, output, cgroups, os.dup(output), parent)
        os._exit(lifecycle.exit_code(os.waitpid(command, 0)[1]))
    except BaseException as error:  # nothing may escape into the supervisor's own code
        os.write(output, f"cannot enter the container: {error}".encode(errors="replace")[:4096])
    os._exit(128)


# In the workload


def _workload(
    plan: ContainerPlan, channel: socket.socket, output: int, cgroups: list[int], errors: int, init: int
) -> NoReturn:
    try:
        os.setsid()
        if _LINUX and not plan.namespaces:
            _tie_to_parent(init)
        for fd in cgroups:
            os.write(fd, b"0")
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        _announce(plan, channel)
        _prepare_exec(plan)
        if plan.warm is not None:
            raise Become(plan, channel, errors, init)
        _exec(plan)
    except Become:
        raise
    except BaseException as error:
        os.write(errors, _failure(error))
    os._exit(127)


def _failure(error: BaseException) -> bytes:
    """Why a workload could not start, for its init: a code and a text."""
    if isinstance(error, _StartError):
        return f"{error.code} {error}".encode(errors="replace")[:4096]
    text = getattr(error, "strerror", None) or repr(error)
    return f"128 {text}".encode(errors="replace")[:4096]


def _announce(plan: ContainerPlan, channel: socket.socket) -> None:
    pid = int(os.readlink("self", dir_fd=plan.host_proc)) if plan.host_proc is not None else os.getpid()
    message = json.dumps({"pid": pid}).encode() + b"\n"
    if plan.rewrite_binds:
        bind_rewrite.install_filter(channel, message)
    else:
        channel.sendall(message)


def _prepare_exec(plan: ContainerPlan) -> None:
    """Set what exec leaves as it is."""
    try:
        os.chdir(plan.cwd)
    except OSError as error:
        raise _StartError(128, f'cannot change to the working folder "{plan.cwd}": {error.strerror}') from error
    os.umask(0o022)
    syscalls.restore_signals()


def _exec(plan: ContainerPlan) -> NoReturn:
    program, shown = plan.argv[0], plan.shown_argv[0]
    try:
        os.execvpe(program, plan.argv, {**plan.env, processes.MARK: plan.uid})  # noqa: S606 -- the product
    except OSError as error:
        missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
        if not missing:
            raise _StartError(126, f'cannot run "{shown}": {error.strerror}') from error
        if "/" not in program:
            raise _StartError(127, f'cannot run "{shown}": not found in PATH={plan.env.get("PATH", "")}') from error
        if os.path.exists(program):
            raise _StartError(127, f'cannot run "{shown}": the interpreter in its first line does not exist') from error
        raise _StartError(127, f'cannot run "{shown}": {error.strerror}') from error
