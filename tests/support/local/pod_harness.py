"""Real pods for tests: at each level, as root and (when the tests run as root) as an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tfjob.local.sandbox import processes, rootfs, supervisor

SRC = Path(supervisor.__file__).parents[3]
USER = 54321  # a user without a line in passwd and without groups
PYTHON = "/usr/bin/python3" if os.geteuid() == 0 else sys.executable
PATIENCE = 150.0
"""Seconds that a pod may take to come to where a test wants it, on a machine that does much else."""
PATH = "/usr/local/bin:/usr/bin:/bin"
NETWORK = f"127.{80 + os.getpid() // 256 % 40}.{os.getpid() % 256}"
"""The addresses of this process's pods: tests in other processes have others, and jobs have 127.77."""


class Place(NamedTuple):
    """A level, and the user that runs the pod."""

    level: str
    who: str

    def __str__(self) -> str:
        return f"{self.level}-{self.who}"


FULL = [Place("full", "root"), Place("full", "user")]
EACH_LEVEL = [Place("full", "user"), Place("addresses", "root"), Place("ports", "user")]
EVERYWHERE = [Place(level, who) for level in ("full", "addresses", "ports") for who in ("root", "user")]


def place_param(place: Place) -> Any:
    """A place as a parameter; as root it never skips."""
    if place.who == "user":
        return pytest.param(place, id=str(place))
    if os.geteuid() == 0:
        return pytest.param(place, id=str(place), marks=pytest.mark.root)
    return pytest.param(place, id=str(place), marks=pytest.mark.skip(reason="the tests do not run as root"))


def at(places: list[Place]) -> pytest.MarkDecorator:
    """Run a test at these places only."""
    return pytest.mark.parametrize("place", [place_param(place) for place in places])


DEFAULT_SIGNALS = ["sh", "-c", "! grep -E 'Sig(Blk|Ign):.*[1-9a-f]' /proc/self/status"]
"""A command that fails if it ignores or blocks a signal."""


@contextmanager
def odd_signals(*more: signal.Signals) -> Iterator[None]:
    """Ignore and block signals, as a program that starts the tool may do; its child processes inherit that."""
    ignored = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP, signal.SIGUSR1, signal.SIGRTMIN)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (*ignored, *more)}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR2])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)


def launch(folder: Path, secrets: bytes, python: str) -> None:
    """Start a pod's supervisor and wait until it holds its lock."""
    supervisor.await_lock(supervisor.begin(folder, secrets, python), folder)


def groups_of(uid: str) -> set[str]:
    """The names of a pod's control groups that are there; others come and go meanwhile."""
    return {name for _, below, _ in os.walk("/sys/fs/cgroup") for name in below if name.startswith(f"tfjob-{uid}-")}


def groups_go(uid: str) -> bool:
    """Whether a pod's control groups go in time: a supervisor removes one after it has reported the container's end."""
    deadline = time.monotonic() + 60
    while groups_of(uid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not groups_of(uid)


class PodRun:
    """One pod that was launched."""

    def __init__(self, pods: Pods, folder: Path, uid: str) -> None:
        self.folder = folder
        self.uid = uid
        self._pods = pods

    def stop(self, grace: float | None = None) -> bool:
        """As the pod's own user."""
        return self._pods.as_user(lambda: supervisor.stop(self.folder, grace))

    def kill(self) -> None:
        """As the pod's own user."""
        self._pods.as_user(lambda: supervisor.kill(self.folder, PATIENCE))

    def status(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.folder / "status.json").read_text())
        except FileNotFoundError:
            return {}
        return found

    def wait(self, timeout: float = PATIENCE) -> dict[str, Any]:
        """The last status, once the supervisor has gone."""
        self.until(lambda: not supervisor.alive(self.folder), timeout)
        status = self.status()
        assert status.get("done"), f"died without a word: {status} {self.errors()}"
        return status

    def ended(self, container: str = "main", timeout: float = PATIENCE) -> dict[str, Any]:
        """The terminated state of a container, once the pod is over."""
        terminated: dict[str, Any] = self.find(self.wait(timeout), container)["state"]["terminated"]
        return terminated

    def find(self, status: dict[str, Any], container: str) -> dict[str, Any]:
        both = [*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])]
        return next((one for one in both if one["name"] == container), {"state": {}})

    def until_logged(self, text: str, container: str = "main", timeout: float = PATIENCE) -> None:
        self.until(lambda: text in self.log(container), timeout)

    def until_running(self, container: str = "main") -> None:
        self.until(lambda: "running" in self.find(self.status(), container)["state"])

    def until(self, condition: Callable[[], object], timeout: float = PATIENCE) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, f"not in {timeout} s: {self.status()} {self.errors()}"
            time.sleep(0.01)

    def log(self, container: str = "main", attempt: int = 0) -> str:
        """The text of an attempt's current log file, without the prefixes."""
        try:
            raw = (self.folder / "logs" / container / str(attempt) / "log").read_bytes()
        except FileNotFoundError:
            return ""
        text = b""
        for line in raw.splitlines(keepends=True):
            _, _, tag, rest = line.split(b" ", 3)
            text += rest if tag == b"F" else rest.removesuffix(b"\n")
        return text.decode(errors="replace")

    def errors(self) -> str:
        try:
            return (self.folder / "supervisor.err").read_text()
        except FileNotFoundError:
            return ""

    def identity(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "supervisor.json").read_text())
        return found


class Pods:
    """Makes pods at one place and checks in the end that nothing of them is left."""

    def __init__(self, folder: Path, place: Place, source: Path) -> None:
        self.folder = folder
        self.level = place.level
        self.full = place.level == "full"
        self.as_other_user = place.who == "user" and os.geteuid() == 0
        self.uid = USER if self.as_other_user else os.geteuid()
        self._source = source
        self._pods: list[PodRun] = []

    def container(self, *argv: str, name: str = "main", **changes: Any) -> dict[str, Any]:
        return {
            "name": name,
            "argv": list(argv),
            "cwd": "",
            "mounts": [],
            "memory": 0,
            "cpu": 0.0,
            "limits": "poll",
            "terminationMessagePath": "",
            "terminationMessagePolicy": "File",
            **changes,
        }

    def launch(
        self,
        *containers: dict[str, Any],
        init: list[dict[str, Any]] | None = None,
        env: dict[str, str] | None = None,
        files: dict[str, Any] | None = None,
        **changes: Any,
    ) -> PodRun:
        """Start a pod; returns as `launch` does."""
        pod = self.prepare(*containers, init=init, **changes)
        everyone = [*containers, *(init or [])]
        environment = {one["name"]: {"PATH": PATH, **(env or {})} for one in everyone}
        self.start(pod, {"env": environment, "files": files or {}})
        return pod

    def prepare(self, *containers: dict[str, Any], init: list[dict[str, Any]] | None = None, **changes: Any) -> PodRun:
        """A pod directory with its spec.json, not yet launched; {pod} in a mount's source is the directory."""
        number = len(self._pods)
        folder = changes.pop("folder", None) or self.folder / f"pod{number}"
        folder.mkdir(mode=0o700)
        (folder / "volumes").mkdir()
        hosts = folder / "hosts"
        hosts.write_text(f"127.0.0.1 localhost\n{NETWORK}.1 job-worker-0.default.svc job-worker-0\n")
        uid = f"test-{os.getpid()}-{time.monotonic_ns()}"
        spec = {
            "schema": 1,
            "uid": uid,
            "name": f"pod{number}",
            "hostname": f"job-worker-{number}",
            "level": self.level,
            "ip": f"{NETWORK}.{number + 1}" if self.level != "ports" else "",
            "restartPolicy": "Never",
            "grace": 1.0,
            "lifeline": None,
            "hosts": str(hosts) if self.full else "",
            "backoff": {"initial": 0.2, "max": 0.5, "reset": 600},
            "log": {"maxBytes": 10 << 20, "files": 5},
            "tmpfs": [],
            "initContainers": init or [],
            "containers": list(containers),
            **changes,
        }
        (folder / "spec.json").write_text(json.dumps(spec).replace("{pod}", str(folder)))
        self.give(folder)
        pod = PodRun(self, folder, uid)
        self._pods.append(pod)
        return pod

    def start(self, pod: PodRun, secrets: dict[str, Any]) -> None:
        data = json.dumps(secrets).encode()
        assert self.as_user(lambda: launch(pod.folder, data, PYTHON)), pod.errors()

    def as_user(self, action: Callable[[], object]) -> bool:
        """Do something to a pod as the user whose pod it is; False only if it returns False."""
        if not self.as_other_user:
            return action() is not False
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setresgid(USER, USER, USER)
                os.setresuid(USER, USER, USER)
                supervisor.PACKAGE_PARENT = str(self._source)
                os._exit(1 if action() is False else 0)
            except BaseException as error:
                sys.stderr.write(f"{error!r}\n")
                os._exit(2)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, 1), f"failed as user: {code}"
        return code == 0

    def python(self, code: str, *arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run Python code that may import tfjob.local, as the pod's user."""
        start = f"import sys; sys.path.insert(0, {str(self._source)!r})\n"
        who: dict[str, Any] = {"user": USER, "group": USER, "extra_groups": []} if self.as_other_user else {}
        return subprocess.run(
            [PYTHON, "-I", "-S", "-c", start + code, *arguments], input=data, capture_output=True, cwd="/", **who
        )

    def give(self, path: Path) -> None:
        """Let the pod's user own a tree."""
        if self.as_other_user:
            for one in (path, *path.rglob("*")):
                os.chown(one, USER, USER, follow_symlinks=False)

    def end(self) -> None:
        """End and remove every pod; fails if one left a process or a mount behind."""
        for pod in self._pods:
            if supervisor.alive(pod.folder):
                pod.kill()
        left = {pod.uid: processes.marked(pod.uid) for pod in self._pods}
        for pod in self._pods:
            processes.sweep(pod.uid)
        for pod in self._pods:
            rootfs.remove_rootfs(pod.folder)
            assert not (pod.folder / "rootfs").exists()
        shutil.rmtree(self.folder)
        assert not any(left.values()), f"processes survived: {left}"
