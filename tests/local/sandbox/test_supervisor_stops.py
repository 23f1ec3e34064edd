"""A pod ends when it is told to, when its tool dies, and with its supervisor; and never leaves a process."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time

from support.local.pod_harness import EACH_LEVEL, PYTHON, Pods, at
from support.running import ending
from tfjob.local.sandbox import processes, supervisor

POLITE = 'trap "echo bye; exit 7" TERM; echo up; while :; do sleep 0.05; done'
DEAF = 'trap "" TERM; echo up; while :; do sleep 0.05; done'
SLOW = 'trap "told=1" TERM; echo up; n=0; while [ $n -lt 400 ]; do sleep 0.05; n=$((n + ${told:-0})); done; exit 9'
"""Exits on its own, but not before 20 s after SIGTERM."""


def test_sigterm_reaches_the_workload_whose_exit_code_is_recorded(pods: Pods) -> None:
    pod = pods.launch(pods.container("sh", "-c", POLITE), grace=120.0)
    pod.until_logged("up")
    assert pod.stop()
    assert pod.ended()["exitCode"] == 7
    assert pod.log().endswith("bye\n")
    assert pod.status()["stopped"] is True


def test_what_has_ended_by_itself_was_not_stopped(pods: Pods) -> None:
    pod = pods.launch(pods.container("sh", "-c", "exit 3"), grace=120.0)
    assert pod.ended()["exitCode"] == 3
    assert pod.status()["stopped"] is False


def test_a_workload_that_ignores_sigterm_is_killed_after_the_grace(pods: Pods) -> None:
    pod = pods.launch(pods.container("sh", "-c", SLOW), grace=2.0)
    pod.until_logged("up")
    began = time.monotonic()
    pod.stop()
    ended = pod.ended()
    assert (ended["exitCode"], ended["reason"]) == (137, "Error")
    assert time.monotonic() - began >= 2


@at(EACH_LEVEL)
def test_sigterm_by_default_ends_the_workload_at_once(pods: Pods) -> None:
    pod = pods.launch(pods.container("sleep", "600"), grace=120.0)
    pod.until_running()
    pod.stop()
    assert pod.ended()["exitCode"] == 143


@at(EACH_LEVEL)
def test_a_second_stop_shortens_the_grace(pods: Pods) -> None:
    pod = pods.launch(pods.container("sh", "-c", DEAF), grace=900.0)
    pod.until_logged("up")
    pod.stop(600)
    time.sleep(0.2)
    assert supervisor.alive(pod.folder)
    pod.stop(0)
    assert pod.ended()["exitCode"] == 137


@at(EACH_LEVEL)
def test_kill_ends_a_deaf_pod_at_once_and_its_code_is_known(pods: Pods) -> None:
    pod = pods.launch(pods.container("sh", "-c", DEAF), grace=900.0)
    pod.until_logged("up")
    pod.kill()
    assert not supervisor.alive(pod.folder)
    assert pod.ended()["exitCode"] == 137


@at(EACH_LEVEL)
def test_stopping_a_pod_that_is_over_does_nothing(pods: Pods) -> None:
    pod = pods.launch(pods.container("true"))
    pod.wait()
    assert pod.stop() is False
    assert supervisor.alive(pod.folder) is False


def test_nothing_survives_a_killed_supervisor(pods: Pods) -> None:
    """With a pid namespace the kernel sees to it, without one the sweep by the mark does."""
    fled = "subprocess.Popen(['setsid', 'sleep', '790'])"
    code = f"import subprocess, time; {fled}; print('up', flush=True); time.sleep(600)"
    pod = pods.launch(pods.container(PYTHON, "-c", code))
    pod.until_logged("up")
    os.kill(pod.identity()["pid"], signal.SIGKILL)
    pod.until(lambda: not supervisor.alive(pod.folder))
    if not pods.full:
        time.sleep(0.1)
        processes.sweep(pod.uid)
    pod.until(lambda: processes.marked(pod.uid) == [])
    assert pod.status()["done"] is False


def test_a_pod_ends_when_the_holder_of_its_lifeline_is_gone(pods: Pods) -> None:
    lifeline = pods.folder / "lifeline"
    lifeline.touch()
    hold = f"f = open({str(lifeline)!r}); fcntl.flock(f, 2); print('held', flush=True)"
    code = f"import fcntl, time; {hold}; time.sleep(600)"
    with ending(subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)) as holder:
        assert holder.stdout
        holder.stdout.readline()
        pod = pods.launch(pods.container("sleep", "600"), lifeline=str(lifeline))
        pod.until_running()
        time.sleep(0.6)
        assert supervisor.alive(pod.folder)
    assert pod.ended()["exitCode"] == 143
    assert (pod.status()["phase"], pod.status()["reason"]) == ("Failed", "ControllerGone")


@at(EACH_LEVEL)
def test_looking_at_the_lifeline_does_not_keep_a_new_holder_out_for_long(pods: Pods) -> None:
    lifeline = pods.folder / "lifeline"
    with lifeline.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        pod = pods.launch(pods.container("sleep", "600"), lifeline=str(lifeline))
        pod.until_running()
    assert pod.ended()["exitCode"] == 143
    with lifeline.open("w") as again:
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)


@at(EACH_LEVEL)
def test_a_second_launch_is_harmless_while_it_runs_and_after(pods: Pods) -> None:
    pod = pods.launch(pods.container("sh", "-c", "echo ran; sleep 0.5"))
    first = pod.identity()
    secrets = {"env": {"main": {"PATH": "/bin"}}, "files": {}}
    pods.start(pod, secrets)
    pod.wait()
    pods.start(pod, secrets)
    assert pod.identity() == first
    assert pod.log() == "ran\n"


@at(EACH_LEVEL)
def test_many_launches_at_once_run_the_pod_once(pods: Pods) -> None:
    pod = pods.prepare(pods.container("sh", "-c", "echo ran; sleep 0.3"))
    code = (
        "import os, sys\n"
        "from tfjob.local.sandbox import supervisor\n"
        "children = []\n"
        "for _ in range(4):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        '        begun = supervisor.begin(sys.argv[1], b\'{"env": {"main": {"PATH": "/bin"}}, "files": {}}\')\n'
        "        supervisor.await_lock(begun, sys.argv[1])\n"
        "        os._exit(0)\n"
        "    children.append(child)\n"
        "sys.exit(sum(os.waitpid(child, 0)[1] for child in children))\n"
    )
    done = pods.python(code, str(pod.folder))
    assert done.returncode == 0, done.stderr
    pod.wait()
    assert pod.log() == "ran\n"


@at(EACH_LEVEL)
def test_the_supervisor_belongs_to_init_and_is_named_in_its_file(pods: Pods) -> None:
    pod = pods.launch(pods.container("sleep", "600"))
    identity = pod.identity()
    assert processes.start_time(identity["pid"]) == identity["startTime"]
    assert processes.table()[identity["pid"]][0] != os.getpid()
    assert os.getsid(identity["pid"]) != os.getsid(0)


@at(EACH_LEVEL)
def test_a_pid_that_belongs_to_another_process_by_now_is_not_signalled(pods: Pods) -> None:
    pod = pods.launch(pods.container("sleep", "600"))
    pod.until_running()
    with ending(subprocess.Popen(["sleep", "600"])) as bystander:
        true_identity = (pod.folder / "supervisor.json").read_text()
        fake = {**pod.identity(), "pid": bystander.pid}
        (pod.folder / "supervisor.json").write_text(str(fake).replace("'", '"'))
        assert pod.stop() is False
        assert bystander.poll() is None
        (pod.folder / "supervisor.json").write_text(true_identity)
