"""A pod's life beyond one process: init containers, several containers, sidecars, restarts in place, messages."""

from __future__ import annotations

import stat
import subprocess
import time

import pytest

from support.local.pod_harness import EACH_LEVEL, FULL, PYTHON, Place, PodRun, Pods, at

SOON, TRIES = 3.0, 10
FAIL_TWICE = 'n=$(cat "$FILE" 2>/dev/null || echo 0); echo $((n+1)) > "$FILE"; echo try $n; [ $n -ge 2 ]'


def restarts(pod: PodRun, container: str = "main") -> int:
    return int(pod.find(pod.status(), container)["restartCount"])


def test_on_failure_restarts_until_success_with_a_log_for_each_attempt(pods: Pods) -> None:
    counter = pods.folder / "counter"
    pod = pods.launch(pods.container("sh", "-c", FAIL_TWICE), restartPolicy="OnFailure", env={"FILE": str(counter)})
    assert pod.ended()["exitCode"] == 0
    assert pod.status()["phase"] == "Succeeded"
    assert restarts(pod) == 2
    assert [pod.log(attempt=n) for n in range(3)] == ["try 0\n", "try 1\n", "try 2\n"]
    last = pod.find(pod.status(), "main")["lastState"]["terminated"]
    assert last["exitCode"] == 1


@at(EACH_LEVEL)
def test_the_first_restart_is_at_once_and_the_second_waits_for_the_back_off(pods: Pods) -> None:
    pod = pods.launch(
        pods.container("sh", "-c", "exit 4"),
        restartPolicy="OnFailure",
        backoff={"initial": 300, "max": 300, "reset": 600},
    )
    pod.until(lambda: "back-off 300s" in str(pod.status()))
    found = pod.find(pod.status(), "main")
    assert found["restartCount"] == 1
    assert found["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert found["lastState"]["terminated"]["exitCode"] == 4
    assert pod.status()["phase"] == "Running"
    pod.stop()
    assert pod.ended()["exitCode"] == 4
    assert pod.status()["phase"] == "Failed"


@at(EACH_LEVEL)
def test_a_program_that_never_starts_is_given_up_after_three_attempts(pods: Pods) -> None:
    pod = pods.launch(pods.container("no-such-program"), restartPolicy="OnFailure")
    assert (pod.ended()["reason"], pod.status()["phase"], restarts(pod)) == ("StartError", "Failed", 2)


@at(EACH_LEVEL)
def test_a_server_that_never_starts_is_not_given_up(pods: Pods) -> None:
    pod = pods.launch(pods.container("no-such-program"), restartPolicy="Always")
    pod.until(lambda: restarts(pod) >= 4)
    pod.stop()
    assert pod.wait()["done"]


@at(EACH_LEVEL)
def test_the_init_container_of_a_server_is_not_given_up_either(pods: Pods) -> None:
    setup = pods.container("no-such-program", name="setup")
    pod = pods.launch(pods.container("true"), init=[setup], restartPolicy="Always")
    pod.until(lambda: restarts(pod, "setup") >= 4)
    pod.stop()
    assert pod.wait()["done"]


@at(EACH_LEVEL)
def test_always_restarts_after_success_too(pods: Pods) -> None:
    pod = pods.launch(pods.container("sh", "-c", "echo once"), restartPolicy="Always")
    pod.until(lambda: restarts(pod) >= 2)
    pod.stop()
    assert pod.wait()["done"]


@at(EACH_LEVEL)
def test_never_does_not_restart(pods: Pods) -> None:
    pod = pods.launch(pods.container("false"))
    assert pod.ended()["exitCode"] == 1
    assert restarts(pod) == 0


@at(EACH_LEVEL)
def test_init_containers_run_one_after_another_before_the_containers(pods: Pods) -> None:
    trace = pods.folder / "trace"
    pod = pods.launch(
        pods.container("sh", "-c", f"echo main >> {trace}"),
        init=[
            pods.container("sh", "-c", f"sleep 0.2; echo one >> {trace}", name="one"),
            pods.container("sh", "-c", f"echo two >> {trace}", name="two"),
        ],
    )
    pod.ended()
    assert trace.read_text().split() == ["one", "two", "main"]
    status = pod.status()
    assert status["phase"] == "Succeeded"
    assert [one["ready"] for one in status["initContainerStatuses"]] == [True, True]


@at(EACH_LEVEL)
def test_a_failed_init_container_fails_a_pod_that_never_restarts(pods: Pods) -> None:
    pod = pods.launch(pods.container("echo", "never"), init=[pods.container("sh", "-c", "exit 9", name="setup")])
    status = pod.wait()
    assert status["phase"] == "Failed"
    assert pod.find(status, "setup")["state"]["terminated"]["exitCode"] == 9
    assert pod.find(status, "main")["state"]["waiting"]["reason"] == "PodInitializing"
    assert pod.log() == ""


@at(EACH_LEVEL)
def test_a_failed_init_container_is_tried_again_while_the_pod_is_pending(pods: Pods) -> None:
    counter = pods.folder / "counter"
    pod = pods.launch(
        pods.container("echo", "main"),
        init=[pods.container("sh", "-c", FAIL_TWICE, name="setup")],
        env={"FILE": str(counter)},
        restartPolicy="OnFailure",
        backoff={"initial": 8, "max": 8, "reset": 600},
    )
    pod.until(lambda: restarts(pod, "setup") == 1)
    assert pod.status()["phase"] == "Pending"
    assert pod.ended()["exitCode"] == 0
    assert restarts(pod, "setup") == 2


@at(EACH_LEVEL)
def test_a_pod_with_several_containers_is_over_when_all_are(pods: Pods) -> None:
    pod = pods.launch(
        pods.container("sh", "-c", "echo a; exit 0", name="a"),
        pods.container("sh", "-c", "sleep 0.4; echo b; exit 6", name="b"),
    )
    status = pod.wait()
    assert status["phase"] == "Failed"
    assert [pod.find(status, name)["state"]["terminated"]["exitCode"] for name in "ab"] == [0, 6]
    assert (pod.log("a"), pod.log("b")) == ("a\n", "b\n")


@at(EACH_LEVEL)
def test_a_container_that_restarts_leaves_the_others_alone(pods: Pods) -> None:
    pod = pods.launch(
        pods.container("sh", "-c", "echo up; while :; do sleep 0.05; done", name="steady"),
        pods.container("false", name="flaky"),
        restartPolicy="OnFailure",
    )
    pod.until(lambda: restarts(pod, "flaky") >= 2)
    assert restarts(pod, "steady") == 0
    assert pod.find(pod.status(), "steady")["ready"]
    pod.stop()
    pod.wait()


@at(EACH_LEVEL)
def test_a_sidecar_starts_first_and_is_ended_after_the_containers(pods: Pods) -> None:
    gate = pods.folder / "gate"
    pod = pods.launch(
        pods.container("sh", "-c", f"until [ -e {gate} ]; do sleep 0.05; done"),
        init=[
            pods.container(
                "sh",
                "-c",
                'trap "echo ended; exit 1" TERM; echo up; while :; do sleep 0.05; done',
                name="sidecar",
                restartPolicy="Always",
            ),
        ],
        grace=10.0,
    )
    pod.until_logged("up", "sidecar")
    gate.touch()
    assert pod.ended()["exitCode"] == 0
    assert pod.log("sidecar") == "up\nended\n"
    assert pod.status()["phase"] == "Succeeded"


@at([Place("full", "user"), Place("addresses", "root")])
def test_containers_of_a_pod_reach_each_other_on_localhost(pods: Pods) -> None:
    server = (
        "import socket; s = socket.create_server(('', 2222)); print('up', flush=True); s.accept()[0].sendall(b'hello')"
    )
    client = (
        "import socket, time\n"
        "for _ in range(2400):\n"
        "    try: print(socket.create_connection(('localhost', 2222)).recv(9).decode()); break\n"
        "    except OSError: time.sleep(.05)\n"
    )
    pod = pods.launch(
        pods.container(PYTHON, "-c", server, name="server"), pods.container(PYTHON, "-c", client, name="client")
    )
    assert pod.ended("client")["exitCode"] == 0
    assert pod.log("client") == "hello\n", pod.log("server")


@at(FULL)
def test_the_termination_message_file_becomes_the_message(pods: Pods) -> None:
    pod = pods.launch(pods.container("sh", "-c", "echo disk on fire > /dev/termination-log; exit 1"))
    assert pod.ended()["message"] == "disk on fire\n"


@at(FULL)
def test_the_termination_message_path_can_be_anywhere(pods: Pods) -> None:
    pod = pods.launch(
        pods.container(
            "sh", "-c", "echo why > /no/where/before/message", terminationMessagePath="/no/where/before/message"
        )
    )
    assert pod.ended()["message"] == "why\n"


@at(EACH_LEVEL)
def test_the_end_of_the_log_is_the_message_of_a_failure_when_asked_for(pods: Pods) -> None:
    script = (
        r"for i in $(seq 30); do echo line $i; done; printf 'step 1\rstep 2\r\n\033[31mred\033[0m \377 end\n'; exit 1"
    )
    pod = pods.launch(pods.container("sh", "-c", script, terminationMessagePolicy="FallbackToLogsOnError"))
    lines = pod.ended()["message"].splitlines()
    assert len(lines) == 20
    assert lines[0] == "line 13"
    assert lines[-2:] == ["step 2", "red \N{REPLACEMENT CHARACTER} end"]


@at(EACH_LEVEL)
def test_a_restarted_container_finds_a_clean_layer_but_its_emptydir(pods: Pods) -> None:
    script = "ls $WRITTEN $DATA 2>/dev/null; touch $WRITTEN $DATA/kept; exit 1"
    pod = pods.prepare(
        pods.container(
            "sh", "-c", script, mounts=[{"source": "{pod}/volumes/data", "target": "/data", "readOnly": False}]
        ),
        restartPolicy="OnFailure",
    )
    data = pod.folder / "volumes" / "data"
    data.mkdir()
    pods.give(pod.folder)
    env = {"PATH": "/bin", "DATA": "/data" if pods.full else str(data), "WRITTEN": "/written" if pods.full else ""}
    pods.start(pod, {"env": {"main": env}, "files": {}})
    pod.until(lambda: restarts(pod) >= 1 and pod.log(attempt=1))
    pod.stop()
    pod.wait()
    assert "kept" in pod.log(attempt=1)
    if pods.full:
        assert "/written" not in pod.log(attempt=1)


@at(EACH_LEVEL)
def test_the_status_names_the_workloads_pid_as_the_host_sees_it(pods: Pods) -> None:
    pod = pods.launch(pods.container("sleep", "61"))
    pod.until_running()
    pid = pod.status()["pids"]["main"]
    with open(f"/proc/{pid}/cmdline") as file:
        assert file.read() == "sleep\x0061\x00"
    pod.stop()
    assert pod.wait()["pids"] == {}


@at(EACH_LEVEL)
def test_files_of_the_pod_are_private(pods: Pods) -> None:
    pod = pods.launch(pods.container("true"))
    pod.wait()
    for name in ("status.json", "supervisor.json", "lock", "logs/main/0/log"):
        assert stat.S_IMODE((pod.folder / name).stat().st_mode) == 0o600


@pytest.mark.alone
@at(EACH_LEVEL)
def test_a_pod_is_up_soon_after_its_launch(pods: Pods) -> None:
    """In the best of several tries, compared with what the machine takes to start a bare interpreter then."""
    took: list[tuple[float, float]] = []
    while not took or (not is_soon(*took[-1]) and len(took) < TRIES):
        began = time.monotonic()
        subprocess.run([PYTHON, "-I", "-S", "-c", ""], check=True)
        bare = time.monotonic() - began
        began = time.monotonic()
        pod = pods.launch(pods.container("echo", "up"))
        pod.until_logged("up")
        took.append((time.monotonic() - began, bare))
    assert is_soon(*took[-1]), took


def is_soon(pod: float, bare_interpreter: float) -> bool:
    return pod < max(SOON, 40 * bare_interpreter)
