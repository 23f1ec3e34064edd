"""A pod's supervisor from outside: start it, stop it, kill it, check whether it is alive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from . import pod_files, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    PathLike = str | os.PathLike[str]

PACKAGE_PARENT = os.path.abspath(f"{__file__}/../../../..")


class LaunchError(OSError):
    """A supervisor could not start; the text says why."""

    @classmethod
    def from_answer(cls, answer: bytes, pod_dir: PathLike) -> LaunchError:
        text = answer.decode(errors="replace").removeprefix("error ")
        return cls(text or f"it exited during startup: see {pod_dir}/supervisor.err")


def command(pod_dir: PathLike, python: str = sys.executable) -> list[str]:
    """Return the argv of a pod's supervisor; it runs without site-packages to start fast."""
    return [python, "-I", "-S", "-c", program("sandbox.pod_process", "main"), os.fspath(pod_dir)]


def program(module: str, function: str) -> str:
    """Return the code for `python -I -S -c` that calls a function of `tfjob.local`."""
    # The standard library stays first in sys.path.
    start = f"import sys; sys.path.append({PACKAGE_PARENT!r})"
    return f"{start}; from tfjob.local.{module} import {function}; {function}()"


def begin(pod_dir: PathLike, secrets: bytes, python: str = sys.executable) -> subprocess.Popen[bytes]:
    """Start a pod's supervisor without waiting for it, so that several can start at once."""
    with open(f"{pod_dir}/supervisor.err", "ab") as errors:
        process = subprocess.Popen(
            command(pod_dir, python),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            cwd="/",
        )
    assert process.stdin is not None
    try:
        with process.stdin as pipe:
            pipe.write(secrets)
    except BrokenPipeError:
        pass  # it is dead, and `await_lock` reports why
    process.stdin = None
    return process


def await_lock(process: subprocess.Popen[bytes], pod_dir: PathLike, patience: float = 60.0) -> None:
    """Wait until a supervisor holds its lock, or raise LaunchError."""
    try:
        answer, _ = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise LaunchError(f"it was not ready after {patience:g} s") from None
    if answer != b"ready":
        raise LaunchError.from_answer(answer, pod_dir)


def alive(pod_dir: PathLike) -> bool:
    """Return whether the pod's supervisor runs: it holds a lock, which the kernel releases when it dies."""
    return pod_files.is_locked(f"{pod_dir}/lock")


def stop(pod_dir: PathLike, grace: float | None = None) -> bool:
    """Request SIGTERM and, after `grace` seconds (None: the pod's own), SIGKILL; return False if the pod has ended."""
    if not alive(pod_dir):
        return False
    if grace is not None:
        pod_files.write_json(f"{pod_dir}/stop.json", {"grace": grace})
    return _signal_supervisor(pod_dir, signal.SIGTERM)


def kill(pod_dir: PathLike, patience: float = 5.0) -> None:
    """Kill the pod: through its supervisor if that responds within `patience` seconds, otherwise together with it."""
    stop(pod_dir, 0)
    deadline = time.monotonic() + patience
    while alive(pod_dir) and time.monotonic() < deadline:
        time.sleep(0.01)
    while alive(pod_dir) and _signal_supervisor(pod_dir, signal.SIGKILL):
        time.sleep(0.01)
    spec = pod_files.read_json(f"{pod_dir}/spec.json")
    if spec:
        processes.sweep(spec["uid"])


def _signal_supervisor(pod_dir: PathLike, number: int) -> bool:
    """Signal the process that supervisor.json names, never another process that has reused its pid."""
    identity = pod_files.read_json(f"{pod_dir}/supervisor.json")
    if not identity:
        return False
    if not hasattr(signal, "pidfd_send_signal"):
        processes.kill(identity["pid"], number)  # macOS: only the lock shows that it is alive
        return True
    try:
        pidfd = os.pidfd_open(identity["pid"])
    except OSError:
        return False
    try:
        if processes.start_time(identity["pid"]) != identity["startTime"]:
            return False
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(pidfd)
    return True
