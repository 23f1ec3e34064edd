"""The process that warm replicas are forked from: it has imported TensorFlow once and does nothing else.

It runs under the replicas' own interpreter, started as `python script` would be but for its words. Whoever asks gets a
fork that becomes the supervisor of a pod; that one's fork becomes the program, so nothing here may start a thread or
touch TensorFlow. It ends when nobody has used it for a while, when a tool that used it dies, and with its folder.
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

_LOOK = 1.0  # seconds between looks at the clock, at its folder and at what it has imported


class Unfit(Exception):
    """This interpreter cannot be forked from; the text says why."""


def main() -> None:
    """Serve the folder in argv[1], under the lock argv[2]; argv[3] is the other end of its first standard output.

    Its standard output was born as a pipe, as a replica's is, so that Python's own files are the same; what is
    written there from now on goes to a log. argv[4] is a connection with the tool that started it.
    """
    folder, lock, spare, starter = sys.argv[1], *map(int, sys.argv[2:5])
    settings = pod_files.read_json(f"{folder}/settings.json")
    program.reset_signals()  # with SIGCHLD ignored it could not wait for its forks, and `kill` must end it
    for fd in (lock, starter):
        os.set_inheritable(fd, False)
    if os.fork():
        os._exit(0)  # whoever started us has nobody to wait for
    log = os.open(f"{folder}/log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.close(spare)
    if sys.path[:1] == [""]:
        del sys.path[0]  # the place of a script's folder, which each fork fills itself
    try:
        imported = _import_tensorflow(settings)
        server = _Server(folder, imported, settings["idle"], starter)
    except Unfit as error:
        pod_files.write_json(f"{folder}/state.json", {"unfit": str(error)})
        os._exit(1)
    pod_dir = server.serve()
    # From here on we are a fork of the server.
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
    try:
        importlib.import_module("tensorflow")
    except ImportError as error:
        raise Unfit(f"{sys.executable} cannot import TensorFlow: {error}") from error
    if _open_files() != before:
        raise Unfit("importing TensorFlow left files open")
    for name in ("sitecustomize", "usercustomize"):
        file = getattr(sys.modules.get(name), "__file__", None)
        # Debian's own belongs to the interpreter; any other may do anything at each start.
        if file is not None and os.path.dirname(file) != os.path.dirname(os.__file__):
            raise Unfit(f"{sys.executable} runs {file} whenever it starts")
    # A first fork ends the helper threads of libraries that know how to start them again (OpenBLAS does).
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    if reason := _danger():
        raise Unfit(reason)
    gc.collect()
    gc.freeze()  # a collector that looks at every object would copy every page into every fork
    return program.Imported(settings, born_with)


def _danger() -> str:
    """Why this process must not be forked now; empty if it may."""
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        return f"importing TensorFlow left threads running ({threads - 1})"
    if program.runtime_started():
        return "importing TensorFlow started its runtime"
    return ""


def _open_files() -> set[str]:
    return set(os.listdir("/proc/self/fd"))  # with the one for this look, which is the same each time


class _Server:
    """Answers on a socket in its folder; every message is one packet of JSON.

    A client hears whether all is as it was imported when it connects, and again before each fork.
    """

    def __init__(self, folder: str, imported: program.Imported, idle: float, starter: int) -> None:
        self._folder = folder
        self._imported = imported
        self._idle = idle
        self._socket = f"{folder}/socket"
        self._starter = starter
        self._clients = {starter: socket.socket(fileno=starter)}
        self._forked = 0
        self._quiet_since = time.monotonic()
        self._looked_at = 0.0  # when its files were last seen to be as they were
        self._poll = select.poll()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pod_files.remove(self._socket)
        pod_files.use_socket(self._listener.bind, self._socket)
        self._identity = file_identity(self._socket)
        self._listener.listen(64)
        self._poll.register(self._listener, select.POLLIN)
        self._poll.register(starter, select.POLLIN)  # which hears of its death too, should it never ask
        self._tell()

    def serve(self) -> str:
        """Until it is time to end; returns only in a fork, with the pod directory that it is for."""
        while True:
            for fd, _ in self._poll.poll(_LOOK * 1000):
                if fd == self._listener.fileno():
                    self._welcome()
                elif pod_dir := self._hear(self._clients[fd]):
                    return pod_dir
            _bury()
            unused = not self._clients and time.monotonic() - self._quiet_since >= self._idle
            if unused or file_identity(self._socket) != self._identity:
                self._end()

    def _welcome(self) -> None:
        client, _ = self._listener.accept()
        self._clients[client.fileno()] = client
        self._poll.register(client, select.POLLIN)
        self._looked_at = 0.0  # a new run gets what is there now
        self._check(client)
        self._tell()  # first, so that the state counts every client that has its answer
        self._say(client, {"fit": True})

    def _hear(self, client: socket.socket) -> str:
        """Do what a client asks; a pod directory in the fork that is to supervise it, else nothing."""
        try:
            data, fds, _, _ = socket.recv_fds(client, 65536, 3)
        except ConnectionResetError:
            data, fds = b"", []
        request = json.loads(data or b"{}")
        if "launch" not in request:
            self._farewell(client, in_order="bye" in request)
            return ""
        self._check(client)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            for number, fd in enumerate(fds):
                os.dup2(fd, number)
            self._forget()
            container.close_all_but()
            return str(request["launch"])
        for fd in fds:
            os.close(fd)
        self._forked += 1
        self._tell()
        self._say(client, {"pid": pid})
        return ""

    def _check(self, client: socket.socket) -> None:
        """Tell the client why there is no fork, and end, if one would not be what a new import is.

        A look at the thousands of files within the last second counts for the pods of a run.
        """
        changed, now = "", time.monotonic()
        if now - self._looked_at >= _LOOK:
            changed, self._looked_at = self._imported.changed(), now
        if reason := changed or _danger():
            self._say(client, {"unfit": reason})
            self._end()

    def _forget(self) -> None:
        """Let go of what only the server needs, without closing what has a new meaning by now."""
        for one in (self._listener, *self._clients.values()):
            one.detach()

    def _farewell(self, client: socket.socket, *, in_order: bool) -> None:
        self._poll.unregister(client)
        del self._clients[client.fileno()]
        self._starter = -1 if client.fileno() == self._starter else self._starter
        client.close()
        self._quiet_since = time.monotonic()
        if not in_order and not self._clients:
            self._end()  # it was killed: what it used goes too
        self._tell()

    def _say(self, client: socket.socket, message: dict[str, object]) -> None:
        try:
            client.send(json.dumps(message).encode())
        except OSError:
            pass  # it has gone, which we hear next

    def _tell(self) -> None:
        """For `tfjob doctor`."""
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
            pass  # its folder has gone, which we see next

    def _end(self) -> NoReturn:
        if file_identity(self._socket) == self._identity:
            pod_files.remove(self._socket)
        os._exit(0)


def _bury() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
