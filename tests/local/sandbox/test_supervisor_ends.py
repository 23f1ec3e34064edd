"""How a pod's container ended is recorded as a container runtime would record it, at every level, for every user."""

from __future__ import annotations

import subprocess
from typing import NamedTuple

import pytest

from support.local.pod_harness import DEFAULT_SIGNALS, EACH_LEVEL, PATH, PYTHON, Pods, at, odd_signals
from tfjob.local.sandbox import processes, supervisor


class End(NamedTuple):
    name: str
    argv: list[str]
    code: int
    reason: str
    signal: int = 0


ENDS = [
    End("exit 0", ["sh", "-c", "exit 0"], 0, "Completed"),
    End("exit 3", ["sh", "-c", "exit 3"], 3, "Error"),
    End("SIGSEGV", ["sh", "-c", "kill -SEGV $$"], 139, "Error", 11),
    End("SIGABRT", [PYTHON, "-c", "import os; os.abort()"], 134, "Error", 6),
    End("SIGKILL", ["sh", "-c", "kill -KILL $$"], 137, "Error", 9),
    End("SIGUSR1", ["sh", "-c", "kill -USR1 $$"], 138, "Error", 10),
    End("SIGTERM to itself", ["sh", "-c", "kill -TERM $$"], 143, "Error", 15),
    End("missing program", ["/no/such/program"], 127, "StartError"),
    End("missing in PATH", ["no-such-program"], 127, "StartError"),
    End("not executable", ["/etc/passwd"], 126, "StartError"),
]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.name)
def test_the_exit_code_signal_and_reason_of_the_main_process_are_recorded(pods: Pods, end: End) -> None:
    pod = pods.launch(pods.container(*end.argv))
    ended = pod.ended()
    assert (ended["exitCode"], ended["reason"], ended.get("signal", 0)) == (end.code, end.reason, end.signal)
    assert pod.status()["phase"] == ("Succeeded" if end.code == 0 else "Failed")
    assert ended["startedAt"] <= ended["finishedAt"]
    if end.reason == "StartError":
        assert end.argv[0] in ended["message"]


@at(EACH_LEVEL)
def test_a_pod_whose_launcher_died_before_it_said_what_the_pod_needs_was_not_started(pods: Pods) -> None:
    """Without its variables it could only fail, for good; whoever comes next starts it."""
    pod = pods.prepare(pods.container("echo", "here"))
    assert pods.as_user(lambda: subprocess.call(supervisor.command(pod.folder, PYTHON), stdin=subprocess.DEVNULL) == 1)
    assert not supervisor.alive(pod.folder)
    assert not (pod.folder / "status.json").exists()
    pods.start(pod, {"env": {"main": {"PATH": PATH}}, "files": {}})
    assert pod.ended()["exitCode"] == 0


@at(EACH_LEVEL)
def test_a_missing_working_folder_is_a_start_error(pods: Pods) -> None:
    ended = pods.launch(pods.container("true", cwd="/no/such/folder")).ended()
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert "/no/such/folder" in ended["message"]


@at(EACH_LEVEL)
def test_a_script_whose_interpreter_is_missing_says_so(pods: Pods) -> None:
    pod = pods.prepare(pods.container("{pod}/script"))
    script = pod.folder / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    pods.give(pod.folder)
    pods.start(pod, {"env": {}, "files": {}})
    ended = pod.ended()
    assert ended["exitCode"] == 127
    assert "interpreter" in ended["message"]


def test_everything_that_the_main_process_leaves_behind_is_killed(pods: Pods) -> None:
    script = "(sleep 77 >/dev/null 2>&1 &); (setsid sleep 78 &); exit 5"
    pod = pods.launch(pods.container("sh", "-c", script))
    assert pod.ended()["exitCode"] == 5
    assert processes.marked(pod.uid) == []


def test_a_container_over_its_memory_limit_is_killed_by_polling(pods: Pods) -> None:
    code = "b = b'x' * (200 << 20); import time; time.sleep(600)"
    pod = pods.launch(pods.container(PYTHON, "-c", code, memory=64 << 20, limits="poll"))
    ended = pod.ended()
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
    assert pod.status()["peakMemory"]["main"] > 64 << 20


@at(EACH_LEVEL)
def test_memory_shared_between_processes_is_counted_once(pods: Pods) -> None:
    code = "import os, time\nb = b'x' * (60 << 20)\nchildren = [os.fork() for _ in range(1)]\ntime.sleep(1)\n"
    pod = pods.launch(pods.container(PYTHON, "-c", code, memory=100 << 20, limits="poll"))
    assert pod.ended()["reason"] == "Completed"


@at(EACH_LEVEL)
def test_without_limits_nobody_is_killed(pods: Pods) -> None:
    pod = pods.launch(pods.container(PYTHON, "-c", "b = b'x' * (100 << 20)", memory=1 << 20, limits="off"))
    assert pod.ended()["reason"] == "Completed"
    assert pod.status()["peakMemory"]["main"] > 100 << 20


@at(EACH_LEVEL)
def test_the_workload_is_not_pid_1_and_starts_with_default_signals(pods: Pods) -> None:
    code = (
        "import os, signal\n"
        "print(os.getpid() != 1, os.getsid(0) == os.getpid())\n"
        "lines = dict(line.split(':', 1) for line in open('/proc/self/status') if line.startswith('Sig'))\n"
        "print(int(lines['SigBlk'], 16), int(lines['SigIgn'], 16) & ~((1 << 12) | (1 << 24)))\n"
        "print(sorted(os.listdir('/proc/self/fd'))[:3], len(os.listdir('/proc/self/fd')))\n"
    )
    pod = pods.launch(pods.container(PYTHON, "-I", "-S", "-c", code))
    pod.ended()
    assert pod.log() == "True True\n0 0\n['0', '1', '2'] 4\n"


@at(EACH_LEVEL)
def test_containers_have_default_signals_whatever_started_the_tool(pods: Pods) -> None:
    check = pods.container(*DEFAULT_SIGNALS)
    with odd_signals():
        pod = pods.launch(check, init=[{**check, "name": "init"}])
    assert pod.ended("init")["exitCode"] == 0
    assert pod.ended()["exitCode"] == 0


@at(EACH_LEVEL)
def test_a_pod_stops_in_time_whatever_signals_its_launcher_blocked(pods: Pods) -> None:
    with odd_signals():
        pod = pods.launch(pods.container("sleep", "600"), grace=600.0)
        pod.until_running()
    pod.stop()
    assert pod.ended()["exitCode"] == 143


@at(EACH_LEVEL)
def test_the_environment_is_what_was_given_and_the_mark(pods: Pods) -> None:
    pod = pods.launch(pods.container("/usr/bin/env"), env={"GREETING": "hallo wörld"})
    pod.ended()
    lines = pod.log().splitlines()
    assert sorted(lines) == sorted(
        ["GREETING=hallo wörld", "PATH=/usr/local/bin:/usr/bin:/bin", f"TFJOB_POD={pod.uid}"]
    )
