"""The fork server: a process that imports TensorFlow once, and from which warm replicas are forked.

It runs under the replicas' own interpreter, started like `python script` except for its arguments. On request it forks
a supervisor for a pod, and that forks the program, so no code here may start a thread or use TensorFlow. The server
exits when it has been idle for a while, when its last client dies, and when its folder is removed.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import socket
import sys
import time

from tfjob.local.sandbox import container, pod_files, pod_process, processes
from tfjob.local.sandbox.pod_files import file_identity
from tfjob.local.warm import program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_ALLOCATOR = "JE_ARROW_MALLOC_CONF"
_LOOK = 1.0  # seconds between checks of the idle time, of the folder, and of the imported files


class Unfit(Exception):
    """This process cannot serve as a fork server; the text says why."""


def main() -> None:
    """Serve the folder argv[1], with the descriptors of its lock, its stdout pipe and its starter in argv[2:5].

    Standard output is a pipe at first, as in a replica, so that Python configures sys.stdout in the same way; then it
    is redirected to a log. The starter is a connection to the process that started the fork server.
    """
    folder, lock, spare, starter = sys.argv[1], *map(int, sys.argv[2:5])
    settings = pod_files.read_json(f"{folder}/settings.json")
    program.reset_signals()  # with SIGCHLD ignored, it could not wait for its forks; and `kill` must end it
    for fd in (lock, starter):
        os.set_inheritable(fd, False)
    if os.fork():
        os._exit(0)  # the process that started the fork server does not wait for it
    log = os.open(f"{folder}/log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.close(spare)
    if sys.path[:1] == [""]:
        del sys.path[0]  # each fork inserts the folder of its script
    try:
        imported = _import_tensorflow(settings)
        server = _Server(folder, imported, settings["idle"], starter)
    except Unfit as error:
        pod_files.write_json(f"{folder}/state.json", {"unfit": str(error)})
        os._exit(1)
    pod_dir = server.serve()
    # From here on, this process is a fork of the server.
    processes.show_words(["tfjob-pod", pod_dir])
    try:
        pod_process.become_supervisor(pod_dir, forked=True)
    except container.Become as become:
        workload = become
    del server
    program.run(workload, imported)


def _import_tensorflow(settings: dict[str, Any]) -> program.Imported:
    if sys.executable != settings["program"]:
        raise Unfit(f"{settings['program']} is a wrapper around {sys.executable}")
    before, born_with = _open_files(), dict(os.environ)
    # TensorFlow imports pyarrow if pandas is installed, and its allocator would start a thread.
    os.environ.setdefault(_ALLOCATOR, "background_thread:false")
    try:
        importlib.import_module("tensorflow")
    except ImportError as error:
        raise Unfit(f"{sys.executable} cannot import TensorFlow: {error}") from error
    finally:
        if _ALLOCATOR not in born_with:
            del os.environ[_ALLOCATOR]
    if _open_files() != before:
        raise Unfit("importing TensorFlow left files open")
    for name in ("sitecustomize", "usercustomize"):
        file = getattr(sys.modules.get(name), "__file__", None)
        # Debian's own belongs to the interpreter; any other could do anything at each start.
        if file is not None and os.path.dirname(file) != os.path.dirname(os.__file__):
            raise Unfit(f"{sys.executable} runs {file} whenever it starts")
    # A first fork ends the helper threads of libraries that restart them when needed (such as OpenBLAS).
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    if reason := _danger():
        raise Unfit(reason)
    gc.collect()
    gc.freeze()  # otherwise garbage collection would write to every page, and each fork would copy them
    return program.Imported(settings, born_with)


def _danger() -> str:
    """Return why it is unsafe to fork this process now; empty if it is safe."""
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        return f"importing TensorFlow left threads running ({threads - 1})"
    if program.runtime_started():
        return "importing TensorFlow started its runtime"
    return ""


def _open_files() -> set[str]:
    return set(os.listdir("/proc/self/fd"))  # includes the one of listdir, which is the same each time


class _Server:
    """The server's socket and clients; every message is one packet of JSON."""

    def __init__(self, folder: str, imported: program.Imported, idle: float, starter: int) -> None:
        self._folder = folder
        self._imported = imported
        self._idle = idle
        self._socket = f"{folder}/socket"
        self._starter = starter
        self._clients = {starter: socket.socket(fileno=starter)}
        self._forked = 0
        self._quiet_since = time.monotonic()
        self._looked_at = 0.0  # when it last checked the imported files
        self._poll = select.poll()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pod_files.remove(self._socket)
        pod_files.use_socket(self._listener.bind, self._socket)
        self._identity = file_identity(self._socket)
        self._listener.listen(64)
        self._poll.register(self._listener, select.POLLIN)
        self._poll.register(starter, select.POLLIN)  # readable when the starter dies
        self._write_state()

    def serve(self) -> str:
        """Serve until it is time to exit; return only in a fork, with the folder of its pod."""
        while True:
            for fd, _ in self._poll.poll(_LOOK * 1000):
                if fd == self._listener.fileno():
                    self._accept()
                elif pod_dir := self._receive(self._clients[fd]):
                    return pod_dir
            while processes.reap_one(block=False):
                pass
            unused = not self._clients and time.monotonic() - self._quiet_since >= self._idle
            if unused or file_identity(self._socket) != self._identity:
                self._exit()

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        self._clients[client.fileno()] = client
        self._poll.register(client, select.POLLIN)
        self._looked_at = 0.0  # check the files again for each new run
        self._check(client)
        self._write_state()  # before the answer, so that the state counts every client that has one
        self._send(client, {"fit": True})

    def _receive(self, client: socket.socket) -> str:
        """Handle a client's request; return a pod's folder in the fork that supervises it, otherwise ""."""
        try:
            data, fds, _, _ = socket.recv_fds(client, 65536, 3)
        except ConnectionResetError:
            data, fds = b"", []
        request = json.loads(data or b"{}")
        if "launch" not in request:
            self._remove(client, said_bye="bye" in request)
            return ""
        self._check(client)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            for number, fd in enumerate(fds):
                os.dup2(fd, number)
            for one in (self._listener, *self._clients.values()):
                one.detach()  # its descriptor may have been replaced, so this process must not close it later
            container.close_all_but()
            return str(request["launch"])
        for fd in fds:
            os.close(fd)
        self._forked += 1
        self._write_state()
        self._send(client, {"pid": pid})
        return ""

    def _check(self, client: socket.socket) -> None:
        """Tell the client why it gets no fork, and exit, if a fork would differ from a new import."""
        changed, now = "", time.monotonic()
        # There are thousands of files, so they are checked at most once a second.
        if now - self._looked_at >= _LOOK:
            changed, self._looked_at = self._imported.changed(), now
        if reason := changed or _danger():
            self._send(client, {"unfit": reason})
            self._exit()

    def _remove(self, client: socket.socket, *, said_bye: bool) -> None:
        self._poll.unregister(client)
        del self._clients[client.fileno()]
        self._starter = -1 if client.fileno() == self._starter else self._starter
        client.close()
        self._quiet_since = time.monotonic()
        if not said_bye and not self._clients:
            self._exit()  # the last client was killed
        self._write_state()

    def _send(self, client: socket.socket, message: dict[str, object]) -> None:
        try:
            client.send(json.dumps(message).encode())
        except OSError:
            pass  # it has disconnected, which the next poll reports

    def _write_state(self) -> None:
        state = {
            "pid": os.getpid(),
            "python": sys.executable,
            "tensorflow": str(getattr(sys.modules["tensorflow"], "__version__", "")),
            "forked": self._forked,
            "users": len(self._clients.keys() - {self._starter}),
            "idleSince": 0.0 if self._clients else time.time(),
            "idle": self._idle,
        }
        try:
            pod_files.write_json(f"{self._folder}/state.json", state)
        except OSError:
            pass  # its folder has been removed, which `serve` notices next

    def _exit(self) -> NoReturn:
        if file_identity(self._socket) == self._identity:
            pod_files.remove(self._socket)
        os._exit(0)
