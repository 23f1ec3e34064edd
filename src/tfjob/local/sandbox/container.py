"""One run of one container: its init, its workload, and the channel on which they report to the supervisor.

    supervisor -> init (reaps, relays signals; PID 1 of the container's pid namespace) -> workload (own session)

The workload is never PID 1, because SIGTERM would not end it by default then. The init outlives it just long enough to
report how it ended and to kill the processes that it left behind.
"""

from __future__ import annotations

import errno
import gc
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

    from .pod_spec import ContainerPlan

_LINUX = sys.platform == "linux"
_KILL_ALL = signal.SIGUSR1  # to the init: kill everything in the container
_ORPHANED = signal.SIGUSR2  # to the init, from the kernel: the supervisor has died
_INIT_SIGNALS = {signal.SIGCHLD, signal.SIGTERM, _KILL_ALL}


class Container:
    """A running container as the supervisor sees it; the supervisor polls `channel` and `output`."""

    def __init__(self, pid: int, channel: socket.socket, output: int) -> None:
        self.pid = pid  # of the init
        self.channel = channel
        self.output = output  # the workload's stdout and stderr in one pipe, which keeps their order
        self._received = b""

    def terminate(self) -> None:
        processes.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill every process of the container except its init, which still reports how the workload ended."""
        processes.kill(self.pid, _KILL_ALL)

    def kill_init(self) -> None:
        processes.kill(self.pid, signal.SIGKILL)

    def kill_all(self) -> None:
        """Kill the init and its descendants, including those that would not die with their parent yet."""
        for pid in (*processes.descendants(self.pid), self.pid):
            processes.kill(pid, signal.SIGKILL)

    def receive(self) -> tuple[list[dict[str, Any]], list[int], bool]:
        """Return the events and descriptors that have arrived, and whether the channel is still open."""
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

    {"pid": the workload's pid on the host}, {"started": time} or {"error": text, "code": n}, {"cold": reason} if a warm
    start became a cold one, {"exited": wait status, "at": time} when the workload's main process has ended,
    {"peak": bytes of memory} when all processes have ended.
    """
    fork = syscalls.fork_in_new_pid_namespace if plan["namespaces"] else os.fork
    return _fork(fork, lambda *pipes: _init(plan, *pipes))


def start_inside(plan: ContainerPlan, init: int) -> Container:
    """Fork a process that runs another command in the container of `init` and exits with the command's exit code."""
    return _fork(os.fork, lambda *pipes: _enter(plan, init, *pipes))


def start_check(plan: ContainerPlan, check: Callable[[], str]) -> Container:
    """Fork a process on the host that writes the problem that `check` finds to its output and exits with 1, or 0."""
    return _fork(os.fork, lambda *pipes: _check(plan, check, *pipes))


def _fork(fork: Callable[[], int], child: Callable[[socket.socket, int, int], NoReturn]) -> Container:
    """Fork a child, which gets the channel, the pipe for its output and the pid of the supervisor."""
    supervisor = os.getpid()
    ours, theirs = socket.socketpair()
    output, their_output = os.pipe()
    pid = fork()
    if pid == 0:
        child(theirs, their_output, supervisor)
    theirs.close()
    os.close(their_output)
    ours.setblocking(False)
    os.set_blocking(output, False)
    return Container(pid, ours, output)


# In the init


class Become(BaseException):
    """Raised in a warm workload, so that its program runs in this process without frames of the supervisor below it."""

    def __init__(self, plan: ContainerPlan, channel: socket.socket, errors: int, init: int) -> None:
        super().__init__()
        self.plan = plan
        self._channel = channel
        self._errors = errors
        self._init = init

    def keep_open(self) -> list[int]:
        return [self._channel.fileno(), self._errors]

    def detach_sockets(self) -> None:
        """Keep the supervisor's sockets from closing descriptors of the program when Python frees them at its end.

        This process has closed their descriptors, and the program may get the same numbers: TensorFlow aborts if one of
        its own is closed.
        """
        for one in gc.get_objects():
            if type(one) is socket.socket and one is not self._channel:
                one.detach()

    def alive(self) -> None:
        """Report that the program starts now."""
        os.close(self._errors)
        self._errors = -1

    def start_cold(self, reason: str) -> NoReturn:
        """Run the command with exec instead, from any thread; the program starts over."""
        _send(self._channel, {"cold": reason})
        try:
            # The calling thread survives exec, and only the first thread was tied to the init.
            _tie_to_parent(self.plan, self._init)
            _prepare_exec(self.plan)
            _exec(self.plan)
        except _StartError as error:
            if self._errors >= 0:
                os.write(self._errors, _failure(error))
            else:  # the error pipe is closed once the program has started
                os.write(2, f"{error}\n".encode(errors="replace"))
            os._exit(error.code)


class _StartError(Exception):
    """The container cannot start; `code` is the exit code that a shell or container runtime would report."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def _init(plan: ContainerPlan, channel: socket.socket, output: int, supervisor: int) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_BLOCK, _INIT_SIGNALS)
        # The init must not hold the supervisor's lock, nor another container's pipe.
        close_all_but(channel.fileno(), output, plan["hostProc"])
        if _LINUX:
            syscalls.set_process_name("tfjob-init")
        if _LINUX and not plan["namespaces"]:
            syscalls.become_subreaper()
            signal.signal(_ORPHANED, lambda *_: _exit_orphaned())
        _tie_to_parent(plan, supervisor, _ORPHANED)
        workload = _start_workload(plan, channel, output)
        _send(channel, {"started": time.time()})
        os.close(output)  # otherwise the supervisor would not see the end of the output
        status = _wait_for(workload, plan["namespaces"])
        _send(channel, {"exited": status, "at": time.time()})
        _end_all(plan["namespaces"])
        _send(channel, {"peak": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024})
        os._exit(0)
    except Become:
        raise
    except _StartError as error:
        _send(channel, {"error": str(error), "code": error.code})
    except BaseException as error:  # no exception may reach the supervisor's code
        _send(channel, {"error": f"the container's init process failed: {error!r}", "code": 128})
    os._exit(1)


def _start_workload(plan: ContainerPlan, channel: socket.socket, output: int) -> int:
    """Fork the workload and return its pid once its program has started."""
    try:
        cgroups = _open_cgroups(plan)
        if plan["namespaces"]:
            syscalls.unshare(syscalls.NEWNS | syscalls.NEWUTS | syscalls.NEWIPC)
            syscalls.set_hostname(plan["hostname"][:63])
            syscalls.pivot_root(rootfs.build(plan["rootDir"], plan["mounts"], keep=[plan["cwd"]]))
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
    return [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in plan["cgroupFiles"]]


def _wait_for(workload: int, namespaces: bool) -> int:
    """Relay signals and reap orphans until the workload's main process ends; return its wait status."""
    # In a pid namespace the kernel ends orphans, and this signal could only come from the program.
    awaited = _INIT_SIGNALS if namespaces else {*_INIT_SIGNALS, _ORPHANED}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)  # sigwait needs blocked signals
    while True:
        number = signal.sigwait(awaited)
        if number == _ORPHANED:
            _exit_orphaned()
        elif number == signal.SIGTERM:
            os.kill(workload, signal.SIGTERM)
        elif number == _KILL_ALL:
            _kill_rest(namespaces)
        while reaped := processes.reap_one(block=False):
            if reaped[0] == workload:
                return reaped[1]


def _kill_rest(namespaces: bool) -> None:
    if namespaces:
        try:
            os.kill(-1, signal.SIGKILL)  # every process in this pid namespace except this one
        except ProcessLookupError:
            pass
        return
    for pid in processes.descendants(os.getpid()):
        processes.kill(pid, signal.SIGKILL)


def _end_all(namespaces: bool) -> None:
    """Kill the processes that the workload left behind, and wait until they are gone."""
    _kill_rest(namespaces)
    while processes.reap_one(block=True):
        _kill_rest(namespaces)


def _exit_orphaned() -> NoReturn:
    _end_all(namespaces=False)
    os._exit(1)


def _tie_to_parent(plan: ContainerPlan, parent: int, number: int = signal.SIGKILL) -> None:
    """Request a signal for the death of the parent; a pid namespace does not need this."""
    if _LINUX and not plan["namespaces"]:
        syscalls.die_with_parent(number)
        if os.getppid() != parent:
            os._exit(1)  # it has died already


def close_all_but(*keep: int | None) -> None:
    """Close every inherited descriptor except standard input, output, error and these."""
    start = 3
    for fd in sorted(fd for fd in keep if fd is not None):
        os.closerange(start, fd)
        start = fd + 1
    os.closerange(start, max(start, 4096))


def _send(channel: socket.socket, event: dict[str, object]) -> None:
    try:
        channel.sendall(json.dumps(event).encode() + b"\n")
    except OSError:
        pass  # the supervisor has died, and this process will be killed too


# In a process that enters the container


def _enter(plan: ContainerPlan, init: int, channel: socket.socket, output: int, supervisor: int) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        close_all_but(channel.fileno(), output, plan["hostProc"])
        _tie_to_parent(plan, supervisor)
        cgroups = _open_cgroups(plan)
        if plan["namespaces"]:
            syscalls.enter_namespaces(init)
        parent = os.getpid()
        command = os.fork()  # setns moves only children into the pid namespace
        if command == 0:
            _workload(plan, channel, output, cgroups, os.dup(output), parent)
        os._exit(lifecycle.exit_code(os.waitpid(command, 0)[1]))
    except BaseException as error:  # no exception may reach the supervisor's code
        os.write(output, f"cannot enter the container: {error}".encode(errors="replace")[:4096])
    os._exit(128)


# In a process that checks the container from outside


def _check(
    plan: ContainerPlan, check: Callable[[], str], channel: socket.socket, output: int, supervisor: int
) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        close_all_but(channel.fileno(), output)
        _tie_to_parent(plan, supervisor)
        problem = check()
    except BaseException as error:  # no exception may reach the supervisor's code
        problem = getattr(error, "strerror", None) or repr(error)
    os.write(output, problem.encode(errors="replace")[:4096])
    os._exit(1 if problem else 0)


# In the workload


def _workload(
    plan: ContainerPlan, channel: socket.socket, output: int, cgroups: list[int], errors: int, init: int
) -> NoReturn:
    try:
        os.setsid()
        _tie_to_parent(plan, init)
        for fd in cgroups:
            os.write(fd, b"0")
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        _announce(plan, channel)
        _prepare_exec(plan)
        if plan["warm"] is not None:
            raise Become(plan, channel, errors, init)
        _exec(plan)
    except Become:
        raise
    except BaseException as error:
        os.write(errors, _failure(error))
    os._exit(127)


def _failure(error: BaseException) -> bytes:
    """Return the exit code and the text with which a workload tells its init why it could not start."""
    code = error.code if isinstance(error, _StartError) else 128
    text = getattr(error, "strerror", None) or str(error) or repr(error)
    return f"{code} {text}".encode(errors="replace")[:4096]


def _announce(plan: ContainerPlan, channel: socket.socket) -> None:
    proc = plan["hostProc"]
    pid = os.getpid() if proc is None else int(os.readlink("self", dir_fd=proc))
    message = json.dumps({"pid": pid}).encode() + b"\n"
    if plan["rewriteBinds"]:
        bind_rewrite.install_filter(channel, message)
    else:
        channel.sendall(message)


def _prepare_exec(plan: ContainerPlan) -> None:
    """Set the attributes that survive exec."""
    try:
        os.chdir(plan["cwd"])
    except OSError as error:
        raise _StartError(128, f"cannot change to the working folder '{plan['cwd']}': {error.strerror}") from error
    os.umask(0o022)
    syscalls.restore_signals()


def _exec(plan: ContainerPlan) -> NoReturn:
    program = plan["argv"][0]
    try:
        os.execvpe(program, plan["argv"], {**plan["env"], processes.MARK: plan["uid"]})  # noqa: S606 -- the product
    except OSError as error:
        is_missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
        problem = error.strerror
        if is_missing and "/" not in program:
            problem = (
                "PATH has no such program. Check its name, install it on this machine (tfjob does not run images), or"
                " select its virtualenv with --python FOLDER"
            )
        elif is_missing and os.path.exists(program):
            problem = "the interpreter in its first line does not exist"
        raise _StartError(127 if is_missing else 126, f"cannot run '{plan['shownArgv'][0]}': {problem}") from error
