"""A command inside a running container sees what the container sees."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from support.local.pod_harness import (
    DEFAULT_SIGNALS,
    EACH_LEVEL,
    FULL,
    PYTHON,
    Place,
    PodRun,
    Pods,
    at,
    groups_of,
    odd_signals,
)
from tfjob.local.sandbox import exec as pod_exec

HEAR = """
import socket, time
for _ in range(5000):
    try:
        print(socket.create_connection(('localhost', {})).recv(9).decode())
        break
    except OSError:
        time.sleep(0.02)
"""


def run(pods: Pods, pod: PodRun, *argv: str, tty: bool = False, data: bytes = b"") -> tuple[int, bytes]:
    call = "exec_in(sys.argv[1], 'main', sys.argv[3:], bool(sys.argv[2]))"
    code = f"from tfjob.local.sandbox.exec import exec_in; sys.exit({call})"
    done = pods.python(code, str(pod.folder), "tty" if tty else "", *argv, data=data)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def pod(pods: Pods) -> PodRun:
    made = pods.prepare(
        pods.container(
            "sleep", "60", cwd="/usr", mounts=[{"source": "{pod}/volumes/v", "target": "/no-such", "readOnly": False}]
        )
    )
    (made.folder / "volumes" / "v").mkdir()
    (made.folder / "volumes" / "v" / "file").write_text("in the volume\n")
    pods.give(made.folder)
    pods.start(made, {"env": {"main": {"PATH": "/usr/bin:/bin", "GREETING": "hello"}}, "files": {}})
    made.until_running()
    return made


@at([*FULL, *EACH_LEVEL[1:]])
def test_it_has_the_environment_folder_and_namespaces_of_the_container(pods: Pods, pod: PodRun) -> None:
    assert run(pods, pod, "sh", "-c", "echo $GREETING; pwd; id -u; exit 4") == (
        4,
        f"hello\n/usr\n{pods.uid}\n".encode(),
    )
    if pods.full:
        assert run(pods, pod, "cat", "/no-such/file") == (0, b"in the volume\n")
        code, out = run(pods, pod, "sh", "-c", "hostname; cat /proc/1/comm; readlink /proc/self")
        assert (code, out.split()[0]) == (0, b"job-worker-0")
        assert int(out.split()[-1]) < 20


@at(EACH_LEVEL)
def test_it_passes_stdin_and_reports_signals_and_missing_programs(pods: Pods, pod: PodRun) -> None:
    assert run(pods, pod, "cat", data=b"through\n") == (0, b"through\n")
    assert run(pods, pod, "sh", "-c", "kill -TERM $$")[0] == 143
    code, out = run(pods, pod, "no-such-program")
    assert code == 127
    assert b"no-such-program" in out


@at(EACH_LEVEL)
def test_it_can_have_a_terminal(pods: Pods, pod: PodRun) -> None:
    code, out = run(
        pods, pod, "sh", "-c", "test -t 0 && test -t 1 && read line && echo got $line; exit 5", tty=True, data=b"word\n"
    )
    assert code == 5
    assert b"got word" in out


@at(EACH_LEVEL)
def test_a_container_that_does_not_run_cannot_be_entered(pods: Pods, pod: PodRun) -> None:
    pod.stop()
    pod.wait()
    with pytest.raises(pod_exec.NotRunningError, match="main"):
        pod_exec.enter_command(pod.folder, "main", ["true"])


@at(EACH_LEVEL)
def test_it_has_default_signals_whatever_started_the_tool(pods: Pods, pod: PodRun) -> None:
    with odd_signals():
        assert run(pods, pod, *DEFAULT_SIGNALS) == (0, b"")


@at([*FULL, Place("addresses", "root"), Place("addresses", "user")])
def test_localhost_is_the_container_for_both_of_them(pods: Pods) -> None:
    """The command reaches a server of the container, and the container one of the command."""
    greet = "import socket; socket.create_server(('', {})).accept()[0].sendall(b'{}')"
    main = greet.format(2225, "main") + HEAR.format(2226) + "time.sleep(600)"
    pod = pods.launch(pods.container(PYTHON, "-u", "-c", main))
    pod.until(lambda: pod.status()["ports"] == [2225])
    assert run(pods, pod, PYTHON, "-c", HEAR.format(2225)) == (0, b"main\n")
    assert run(pods, pod, PYTHON, "-c", greet.format(2226, "command"))[0] == 0
    pod.until_logged("command\n")
    pod.until(lambda: pod.status()["ports"] == [2225, 2226])


@at([Place("full", "user"), Place("addresses", "root"), Place("ports", "root")])
def test_it_ends_with_the_pod(pods: Pods, pod: PodRun) -> None:
    command = pod_exec.enter_command(pod.folder, "main", ["sh", "-c", "echo in; exec sleep 600"])
    inside = subprocess.Popen([sys.executable, *command[1:]], stdout=subprocess.PIPE, start_new_session=True)
    assert inside.stdout is not None
    try:
        assert inside.stdout.readline() == b"in\n"
        pod.stop()
        pod.wait()
        assert inside.wait(60) == 137
    finally:
        if inside.poll() is None:
            os.killpg(inside.pid, signal.SIGKILL)
            inside.wait()
        inside.stdout.close()


@at([Place(level, "root") for level in ("full", "addresses", "ports")])
def test_it_is_held_to_the_limits_of_the_container(pods: Pods) -> None:
    pod = pods.launch(pods.container("sleep", "600", memory=64 << 20, cpu=0.5, limits="cgroup"))
    pod.until_running()
    code, out = run(pods, pod, "cat", "/proc/self/cgroup")
    groups = {line.split(":")[2].rpartition("/")[2] for line in out.decode().splitlines()}
    assert code == 0
    assert f"tfjob-{pod.uid}-main-0" in groups
    assert run(pods, pod, PYTHON, "-c", "b = b'x' * (300 << 20)")[0] == 137


@at([Place("addresses", "root"), Place("ports", "root")])
def test_it_ends_with_its_container_even_if_the_container_starts_again(pods: Pods) -> None:
    """As on a cluster; a command that lived on would keep the control group of the container's first run."""
    entered = pods.folder / "entered"
    script = f"while [ ! -e {entered} ]; do sleep 0.05; done; rm {entered}; exit 1"
    container = pods.container("sh", "-c", script, memory=64 << 20, limits="cgroup")
    pod = pods.launch(container, restartPolicy="OnFailure")
    pod.until_running()
    assert run(pods, pod, "sh", "-c", f"touch {entered}; exec sleep 600")[0] == 137
    pod.until(lambda: pod.find(pod.status(), "main")["restartCount"] > 0)
    pod.until(lambda: f"tfjob-{pod.uid}-main-0" not in groups_of(pod.uid))
