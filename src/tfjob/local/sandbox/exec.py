"""Run a command in a running container: in its namespaces and cgroups, with its environment and working folder."""

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
    """The container is not running."""


def exec_in(pod_dir: PathLike, container: str, argv: list[str], tty: bool = False) -> int:
    """Run a command with the caller's stdio, on a new terminal if `tty`; return its exit code."""
    command = enter_command(pod_dir, container, argv, tty)
    code = _run_on_terminal(command) if tty else subprocess.call(command)
    return code if code >= 0 else 128 - code


def enter_command(pod_dir: PathLike, container: str, argv: list[str], tty: bool = False) -> list[str]:
    """Return the argv of a process that enters the container and runs `argv` there."""
    pid = main_process(pod_dir, container)
    if pid is None:
        raise NotRunningError(f"container {container} is not running")
    code = supervisor.program("sandbox.exec", "helper")
    return [sys.executable, "-I", "-S", "-c", code, os.fspath(pod_dir), str(pid), "tty" if tty else "", *argv]


def main_process(pod_dir: PathLike, container: str) -> int | None:
    """Return the host's pid of a container's main process; None if it is not running."""
    status = pod_files.read_json(f"{os.fspath(pod_dir)}/status.json") or {}
    spec = pod_files.read_json(f"{os.fspath(pod_dir)}/spec.json") or {}
    pid: int = status.get("pids", {}).get(container, 0)
    runs = pid and supervisor.alive(pod_dir) and processes.is_marked(pid, spec.get("uid", ""))
    return pid if runs else None


def helper() -> NoReturn:
    """Enter the namespaces of a pod's process and run a command there; `enter_command` runs this."""
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
        signal.signal(ignored, signal.SIG_IGN)  # Ctrl-C is for the command; this process waits for its reaction
    child = os.fork()  # setns moves only children into the pid namespace
    if child == 0:
        syscalls.restore_signals()
        try:
            for group in groups:
                os.write(group, b"0")
        except OSError as error:  # version 2 also checks the rights for the common ancestor
            _warn_about_limits(error)
        _become(command, folder, {key: value for key, _, value in pairs}, door)
    signal.signal(signal.SIGTERM, lambda *_: processes.kill(child, signal.SIGTERM))
    _, status = os.waitpid(child, 0)
    os._exit(lifecycle.exit_code(status))


def _open_door(pod_dir: str) -> socket.socket | None:
    """Connect to the supervisor, which receives the bind filter; None at a level without addresses."""
    door = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        pod_files.use_socket(door.connect, f"{pod_dir}/{bind_rewrite.DOOR}")
    except FileNotFoundError:
        return None
    return door


def _open_groups(pid: str) -> list[int]:
    """Open the files of the container's cgroups, which are not visible inside the container."""
    try:
        return [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in cgroups.join_files_of(pid)]
    except OSError as error:
        _warn_about_limits(error)
        return []


def _warn_about_limits(error: OSError) -> None:
    sys.stderr.write(f"tfjob: warning: the container's limits do not apply to this command: {error.strerror}\n")
    sys.stderr.flush()


def _become(command: list[str], folder: str, env: dict[bytes, bytes], door: socket.socket | None) -> NoReturn:
    try:
        os.chdir(folder)
        if door:
            bind_rewrite.install_filter(door, b"x")
        os.execvpe(command[0], command, env)  # noqa: S606 -- the product
    except OSError as error:
        sys.stderr.write(f"tfjob: cannot run '{command[0]}': {error.strerror}\n")
        sys.stderr.flush()
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _run_on_terminal(command: list[str]) -> int:
    """Run a command on a new terminal that is connected to the caller's stdin and stdout."""
    ours, theirs = os.openpty()
    with _terminal_settings(ours):
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        _join(ours)
        os.close(ours)
        return process.wait()


def _join(terminal: int) -> None:
    """Copy stdin to the terminal and the terminal to stdout until the other side is closed."""
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
            os.write(terminal, data or b"\x04")  # at the end of the input, send Ctrl-D
            if not data:
                sources.remove(0)


@contextmanager
def _terminal_settings(terminal: int) -> Iterator[None]:
    """Put the caller's terminal in raw mode, and give its size to the new one."""
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
