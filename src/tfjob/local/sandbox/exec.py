"""A command inside a running container: its namespaces, limits, environment, working folder; the caller's terminal."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import termios
import tty
from contextlib import contextmanager

from . import bind_rewrite, cgroups, lifecycle, pod_files, processes, supervisor, syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

    PathLike = str | os.PathLike[str]


class NotRunningError(Exception):
    """The container that was to be entered does not run."""


def exec_in(pod_dir: PathLike, container: str, argv: list[str], tty: bool = False) -> int:
    """Run a command in a container with the caller's stdio, on a terminal of its own if `tty`; returns its code."""
    command = enter_command(pod_dir, container, argv, tty)
    if tty:
        return _run_on_terminal(command)
    return _shell_code(subprocess.call(command))


def enter_command(pod_dir: PathLike, container: str, argv: list[str], tty: bool = False) -> list[str]:
    """The argv of a process that enters the container and becomes `argv`."""
    pid = main_process(pod_dir, container)
    if pid is None:
        raise NotRunningError(f"container {container} is not running")
    code = supervisor.program("sandbox.exec", "helper")
    return [sys.executable, "-I", "-S", "-c", code, os.fspath(pod_dir), str(pid), "tty" if tty else "", *argv]


def main_process(pod_dir: PathLike, container: str) -> int | None:
    """The process that a container is, as this machine numbers it; None when it does not run."""
    status = pod_files.read_json(f"{os.fspath(pod_dir)}/status.json") or {}
    spec = pod_files.read_json(f"{os.fspath(pod_dir)}/spec.json") or {}
    pid: int = status.get("pids", {}).get(container, 0)
    runs = pid and supervisor.alive(pod_dir) and processes.is_marked(pid, spec.get("uid", ""))
    return pid if runs else None


# In the helper process


def helper() -> NoReturn:
    """Enter the namespaces of a process of a pod and run a command there."""
    pod_dir, pid, on_terminal, *command = sys.argv[1:]
    syscalls.restore_signals()
    if on_terminal:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = [entry.partition(b"=") for entry in file.read().split(b"\0") if entry]
        folder = os.readlink(f"/proc/{pid}/cwd")
        groups = _open_groups(pid)
        door = _open_door(pod_dir)
        syscalls.enter_namespaces(int(pid))
    except OSError as error:
        sys.exit(f"tfjob: cannot enter the container: {error.strerror or error}")
    for ignored in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(ignored, signal.SIG_IGN)  # a Ctrl-C is for the command; we wait for what it makes of it
    child = os.fork()  # a pid namespace is entered by a child only
    if child == 0:
        syscalls.restore_signals()
        _enter_groups(groups)
        _become(command, folder, {key: value for key, _, value in pairs}, door)
    signal.signal(signal.SIGTERM, lambda *_: processes.kill(child, signal.SIGTERM))
    _, status = os.waitpid(child, 0)
    os._exit(lifecycle.exit_code(status))


def _open_door(pod_dir: str) -> socket.socket | None:
    """The way to the supervisor for a bind filter; None at a level without addresses."""
    door = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        pod_files.use_socket(door.connect, f"{pod_dir}/{bind_rewrite.DOOR}")
    except FileNotFoundError:
        return None
    return door


def _open_groups(pid: str) -> list[int]:
    """The doors of the container's control groups, which are not to be seen from inside of it."""
    try:
        return [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in cgroups.join_files_of(pid)]
    except OSError as error:
        _tell_no_limits(error)
        return []


def _enter_groups(groups: list[int]) -> None:
    try:
        for group in groups:
            os.write(group, b"0")
    except OSError as error:  # version 2 also asks the group that both sides share
        _tell_no_limits(error)


def _tell_no_limits(error: OSError) -> None:
    sys.stderr.write(f"tfjob: warning: the container's limits do not apply to this command: {error.strerror}\n")
    sys.stderr.flush()


def _become(command: list[str], folder: str, env: dict[bytes, bytes], door: socket.socket | None) -> NoReturn:
    try:
        os.chdir(folder)
        if door:
            bind_rewrite.install_filter(door, b"x")
        os.execvpe(command[0], command, env)  # noqa: S606 -- the product
    except OSError as error:
        sys.stderr.write(f'tfjob: cannot run "{command[0]}": {error.strerror}\n')
        sys.stderr.flush()
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


# The terminal


def _run_on_terminal(command: list[str]) -> int:
    """Run a command on a new terminal, joined to the caller's stdin and stdout."""
    ours, theirs = os.openpty()
    with _terminal_settings(ours):
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        _join(ours)
        os.close(ours)
        return _shell_code(process.wait())


def _join(terminal: int) -> None:
    """Copy stdin to the terminal and the terminal to stdout until its last user closes it."""
    sources = [terminal, 0]
    while True:
        ready, _, _ = select.select(sources, [], [])
        if terminal in ready:
            try:
                data = os.read(terminal, 65536)
            except OSError:  # EIO: the other side is closed
                return
            if not data:
                return
            os.write(1, data)
        if 0 in ready:
            data = os.read(0, 65536)
            if data:
                os.write(terminal, data)
            else:
                os.write(terminal, b"\x04")  # the end of our input is a Ctrl-D for a terminal
                sources.remove(0)


@contextmanager
def _terminal_settings(terminal: int) -> Iterator[None]:
    """While it lasts: the caller's terminal passes every key on, and the new one has its size."""
    if not os.isatty(0):
        yield
        return

    def copy_size(*_: object) -> None:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))

    copy_size()
    before = termios.tcgetattr(0)
    previous = signal.signal(signal.SIGWINCH, copy_size)
    tty.setraw(0)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, previous)
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def _shell_code(code: int) -> int:
    return code if code >= 0 else 128 - code
