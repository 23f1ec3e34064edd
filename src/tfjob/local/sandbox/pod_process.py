"""The process that supervises one pod: it starts, watches, restarts and ends the pod's containers.

It is detached from the process that launched it, and is PID 1 of the pod's pid namespace, so that no process of the pod
can outlive it. It has one thread and one poll loop. The kubelet reads its status from the pod's folder.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time

from . import bind_rewrite, container, pod_files, processes, syscalls
from .bind_rewrite import BindRewriter
from .container_log import timestamp
from .lifecycle import phase
from .rootfs import make_memory_volumes, remove_memory_volumes
from .supervised_container import Member

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from .pod_spec import PodSpec, PodStatusFile, Secrets

_SHM = "/dev/shm"  # noqa: S108 -- a tmpfs of the pod is mounted over it
_TICK = 0.25  # seconds between checks of the memory, and of the lifeline without inotify
_LONG_TICK = 2.0  # seconds between checks of the lifeline with inotify
_MOMENT = 0.05  # seconds: inotify reports that a file was closed just before its lock is released
_WARNINGS = 50  # the number of warnings in the status; a probe may fail with a new message each time
_KILL_PATIENCE = 2.0  # seconds after which an init that does not respond is killed


def main() -> None:
    become_supervisor(sys.argv[1])


def become_supervisor(pod_dir: str, *, forked: bool = False) -> NoReturn:
    """Read the secrets from stdin, write "ready" to stdout, and supervise a pod until it ends.

    In a fork of a fork server, warm programs run in forks of this process, which raise container.Become.
    """
    pod_dir = os.path.realpath(pod_dir)
    with open(0, "rb", closefd=False) as pipe:
        data = pipe.read()
    if not data:
        os._exit(1)  # the launcher died before it wrote the secrets
    secrets, spec = json.loads(data), pod_files.read_json(f"{pod_dir}/spec.json")
    try:
        if not spec or spec.get("schema") != 1:
            raise ValueError(f"{pod_dir}/spec.json does not describe a pod in schema 1")
        if spec["level"] == "full":
            if os.geteuid() != 0:
                syscalls.enter_user_namespace()
            syscalls.unshare(syscalls.NEWPID)
    except (OSError, ValueError) as error:
        _answer(f"error {getattr(error, 'strerror', None) or error}")
        os._exit(1)
    if os.fork() == 0:  # the child is detached, and PID 1 of the new pid namespace if there is one
        try:
            _supervise(pod_dir, spec, secrets, forked)
        except container.Become:
            raise
        except BaseException:
            import traceback

            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
    os._exit(0)


def _supervise(pod_dir: str, spec: PodSpec, secrets: Secrets, forked: bool) -> NoReturn:
    lock = pod_files.take_lock_unless_launched(pod_dir)
    if lock is None:
        _answer("ready")
        os._exit(0)
    host_pid = int(os.readlink("/proc/self")) if spec["level"] == "full" else os.getpid()
    identity = {"pid": host_pid, "startTime": processes.start_time(host_pid)}
    try:
        pod = PodProcess(pod_dir, spec, secrets, forked=forked)
        pod.prepare()
        pod_files.write_json(f"{pod_dir}/supervisor.json", identity)  # `supervisor.stop` works from now on
    except OSError as error:
        _answer(f"error {error.strerror or error}")
        raise
    _answer("ready")
    pod.run()
    os._exit(0)


def _answer(text: str) -> None:
    """Answer the launcher and close the pipes to it."""
    try:
        os.write(1, text.encode())
    except OSError:
        pass  # it has not waited
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)


class PodProcess:
    """The supervisor's state and poll loop: call `prepare`, then `run`."""

    def __init__(self, pod_dir: str, spec: PodSpec, secrets: Secrets, *, forked: bool) -> None:
        self.pod_dir = pod_dir
        self.forked = forked
        self.spec = spec
        self.full = spec["level"] == "full"
        self.host_proc: int | None = None
        self._warnings: list[str] = []
        self.secrets = secrets
        self._started = time.time()
        self._init = [Member(self, c, "init") for c in spec["initContainers"]]
        self._apps = [Member(self, c, "app") for c in spec["containers"]]
        self._binds = BindRewriter(spec["ip"]) if spec["ip"] and spec["level"] != "ports" else None
        self._members = [*self._init, *self._apps]
        self._status = pod_files.StatusFile(pod_dir, reserve=65536 + 16384 * len(self._members))
        self._lost = pod_files.LostOutput(pod_dir)
        self.rewrites_binds = self._binds is not None
        self._dirty = True
        self._poll = select.poll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._reason = ""
        self._message = ""
        self._stopping = False  # the pod is to end
        self._deadline: float | None = None  # when SIGKILL follows SIGTERM
        self._stopped = False  # a container was running when the pod was to end
        self._term = False  # SIGTERM has arrived and is not handled yet
        self._next_tick = 0.0
        self._lifeline_tick = _TICK

    def prepare(self) -> None:
        if self.full:
            self.host_proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            syscalls.unshare(syscalls.NEWNS)
            syscalls.make_private()
            flags = syscalls.MS_NOSUID | syscalls.MS_NODEV
            syscalls.mount("proc", "/proc", "proc", flags | syscalls.MS_NOEXEC)
            if os.path.isdir(_SHM):
                # Each pod has its own, as on a cluster, and leaves nothing behind in the host's.
                syscalls.mount("tmpfs", _SHM, "tmpfs", flags, "mode=1777")
        elif sys.platform == "linux":
            syscalls.become_subreaper()
        if sys.platform == "linux":
            syscalls.set_process_name("tfjob-pod")
        make_memory_volumes(self.spec["tmpfs"], self.secrets["files"], mounted=self.full)
        if self._binds:
            self._accept_listeners()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self.watch(reader, lambda _: self._on_signal(reader))
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for ignored in (signal.SIGINT, signal.SIGHUP):
            signal.signal(ignored, signal.SIG_IGN)
        self._watch_lifeline()
        self._write_status()

    def _accept_listeners(self) -> None:
        """Receive the bind filters of commands that `exec` runs in the pod."""
        door = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        pod_files.use_socket(door.bind, f"{self.pod_dir}/{bind_rewrite.DOOR}")

        def on_message(_: int) -> None:
            for listener in socket.recv_fds(door, 1, 1)[1]:
                self.listen_to(listener)

        self.watch(door.fileno(), on_message)

    def _watch_lifeline(self) -> None:
        if not self.spec["lifeline"] or sys.platform != "linux":
            return
        try:
            changes = syscalls.inotify()
            syscalls.inotify_watch(changes, os.path.dirname(self.spec["lifeline"]))
        except OSError:
            return  # this user has reached a limit

        def on_change(_: int) -> None:
            os.read(changes, 65536)
            self._next_tick = min(self._next_tick, time.monotonic() + _MOMENT)

        self._lifeline_tick = _LONG_TICK
        self.watch(changes, on_change)

    def watch(self, fd: int, handler: Callable[[int], None], events: int = select.POLLIN) -> None:
        self._handlers[fd] = handler
        self._poll.register(fd, events)

    def unwatch(self, fd: int) -> None:
        if self._handlers.pop(fd, None):
            self._poll.unregister(fd)

    def warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.append(text)
            del self._warnings[:-_WARNINGS]

    def changed(self) -> None:
        self._dirty = True

    def run(self) -> None:
        while not self._advance():
            self._write_status()
            for fd, events in self._poll.poll(self._patience() * 1000):
                handler = self._handlers.get(fd)
                if handler:
                    handler(events)
            self._tick()
            self._lost.tell(self._log_lost)
        self._finish()

    def _patience(self) -> float:
        now = time.monotonic()
        due = [30.0]
        if self._dirty or self.spec["lifeline"] or any(member.polls_memory for member in self._members):
            due.append(self._next_tick - now)
        if self._deadline is not None:
            due.append(self._deadline - now)
        for member in self._members:
            due.extend(member.due_in(now))
        return max(0.0, min(due))

    def _tick(self) -> None:
        now = time.monotonic()
        if self._term:
            self._term = False
            request = pod_files.read_json(f"{self.pod_dir}/stop.json") or {}
            self._stop(float(request.get("grace", self.spec["grace"])))
        for member in self._members:
            member.tick(now)
        if now >= self._next_tick:
            polls = self._dirty or any(member.polls_memory for member in self._members)
            self._next_tick = now + (_TICK if polls else self._lifeline_tick)
            if self.spec["lifeline"] and not self._stopping and not pod_files.is_locked(self.spec["lifeline"]):
                self._reason = "ControllerGone"
                self._message = "the tfjob process that ran this pod has exited"
                self._stop(self.spec["grace"])
            for member in self._members:
                member.check_memory()
        if self._deadline is not None and now >= self._deadline:
            self._kill_all(now)

    def _advance(self) -> bool:
        """Start and end containers as the pod's state requires; return True when the pod is over."""
        mains = [member for member in self._members if not member.is_sidecar]
        failed_init = any(member.is_over and not member.succeeded for member in self._init if not member.is_sidecar)
        if self._stopping or failed_init or all(member.is_over for member in self._apps):
            return not any(member.is_running for member in mains) and self._end_sidecars()
        for member in self._init:
            member.start_if_due()
            if not member.lets_next_start:
                return False
        for member in self._apps:
            member.start_if_due()
        return False

    def _end_sidecars(self) -> bool:
        """End the sidecars one by one, the last one first, as the kubelet does; return True when none is left."""
        sidecars = [member for member in self._init if member.is_sidecar]
        running = [member for member in sidecars if member.is_running]
        for member in sidecars:
            member.never_restart()
        if not running:
            return True
        if self._deadline is None:
            self._deadline = time.monotonic() + self.spec["grace"]
        running[-1].terminate()
        return False

    def _on_term(self, *_: object) -> None:
        self._term = True

    def _on_signal(self, reader: int) -> None:
        try:
            os.read(reader, 4096)
        except BlockingIOError:
            pass
        while reaped := processes.reap_one(block=False):
            for member in self._members:
                member.reaped(*reaped)

    def _stop(self, grace: float) -> None:
        """Send SIGTERM to all containers, and SIGKILL after `grace` seconds; a second call can only shorten that."""
        deadline = time.monotonic() + grace
        self._deadline = deadline if self._deadline is None else min(self._deadline, deadline)
        self._stopping = True
        self._stopped |= any(member.is_running for member in self._apps)
        for member in self._members:
            member.never_restart()
            if not member.is_sidecar:
                member.terminate()

    def _kill_all(self, now: float) -> None:
        self._deadline = now + _KILL_PATIENCE
        for member in self._members:
            member.kill()

    def _finish(self) -> None:
        if not self.full:
            processes.sweep(self.spec["uid"])
            for problem in remove_memory_volumes(self.spec["tmpfs"]):
                self.warn(problem)
        pod_files.remove(f"{self.pod_dir}/{bind_rewrite.DOOR}")  # a folder that contains a socket cannot be copied
        self._status.write_last(self.status(done=True))

    @property
    def _log_lost(self) -> int:
        return sum(member.log_lost for member in self._members)

    def _write_status(self) -> None:
        if self._dirty:
            self._dirty = not self._status.write(self.status(done=False))

    def status(self, *, done: bool) -> PodStatusFile:
        mains = [member.status() for member in self._init if not member.is_sidecar]
        apps = [member.status() for member in self._apps]
        return {
            "phase": phase(mains, apps, done=done),
            "reason": self._reason,
            "message": self._message,
            "startTime": timestamp(self._started),
            "containerStatuses": apps,
            "initContainerStatuses": [member.status() for member in self._init],
            "done": done,
            "stopped": self._stopped,
            "peakMemory": {member.name: member.peak_memory for member in self._members},
            "pids": {member.name: member.workload_pid for member in self._members if member.workload_pid},
            "ports": sorted(self._binds.ports) if self._binds else [],
            "warnings": self._warnings,
            "cold": {member.name: member.cold_because for member in self._members if member.cold_because},
            "logLost": self._log_lost,
            "forkFailed": next((member.fork_failed for member in self._members if member.fork_failed), ""),
        }

    def listen_to(self, listener: int) -> None:
        """Answer the bind and connect calls of a container until its last process ends."""

        def on_event(events: int) -> None:
            if self._binds and events & select.POLLIN:
                self._dirty |= self._binds.answer(listener)
            else:
                self.unwatch(listener)
                os.close(listener)

        self.watch(listener, on_event)
