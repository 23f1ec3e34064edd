"""Commands with `--on k8s` where pods run: attached runs, logs, exec, and what is kept when the pods are gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tarfile
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from devcluster.client import Client
from devcluster.images import BUSYBOX
from support.cluster_golden import check_cluster_golden
from support.cluster_line import on_cluster, start
from support.command_line import CommandLine
from support.faulty_door import Door, faulty_door
from support.running import ending, wait_until
from support.tmux import tmux

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

TICKS = """
trap 'echo stopped; exit 0' TERM
i=0
while [ ! -e /tmp/die ]; do i=$((i+1)); echo tick $i; sleep 1 & wait $!; done
echo dying
exit 3
"""


def manifest(name: str, policy: str = "Never", sidecar: str = "", **scripts: str) -> str:
    """A job whose replicas each run a shell script."""
    specs = {}
    for kind, script in scripts.items():
        containers = [container("tensorflow", script), *([container("sidecar", sidecar)] if sidecar else [])]
        pod = {"terminationGracePeriodSeconds": 1, "containers": containers}
        specs[kind.capitalize()] = {"replicas": 1, "restartPolicy": policy, "template": {"spec": pod}}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {"tfReplicaSpecs": specs},
    }
    return yaml.safe_dump(job)


def container(name: str, script: str) -> dict[str, object]:
    return {"name": name, "image": BUSYBOX, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", script]}


def lines_until(process: subprocess.Popen[str], text: str) -> list[str]:
    """The next lines of a command that goes on, up to the first one with this text."""
    assert process.stdout is not None
    found = []
    for line in process.stdout:
        found.append(line.rstrip("\n"))
        if text in line:
            return found
    pytest.fail(f"ended without {text!r}: {found}")


def interrupted(process: subprocess.Popen[str]) -> list[str]:
    """The last lines of a command that was told Ctrl-C, which it says by its exit code."""
    assert process.stdout is not None
    process.send_signal(signal.SIGINT)
    with process.stdout as output:
        found = output.read().splitlines()
    assert process.wait(60) == 130, found
    return found


@pytest.fixture(scope="module")
def ticking(on_nodes: CommandLine) -> str:
    """A job that runs, with a sidecar, restarted in place when it fails."""
    on_nodes(
        "submit", "-", stdin=manifest("ticking", "OnFailure", sidecar="echo beside; exec sleep 1000", worker=TICKS)
    )
    on_nodes("wait", "ticking", "--for", "running", "--timeout", "90s")
    return "ticking"


def test_an_attached_run_shows_the_lines_of_all_replicas_and_ends_with_the_job(on_nodes: CommandLine) -> None:
    chief = "echo chief; until nc -w 1 hello-worker-0 2222 2>/dev/null; do sleep 0.2; done; sleep 2; echo bye"
    worker = "echo worker; nc -l -p 2222"
    shown = on_nodes("run", "-", stdin=manifest("hello", chief=chief, worker=worker))
    lines = shown.splitlines()
    assert lines[0].endswith("(1 chief, 1 worker)")
    assert {"chief-0  | chief", "chief-0  | bye", "worker-0 | worker"} <= set(lines)
    check_cluster_golden("nodes-succeeded", lines[-1])
    assert sorted(on_nodes("logs", "hello").splitlines()) == ["chief-0  | bye", "chief-0  | chief", "worker-0 | worker"]
    assert on_nodes("logs", "hello", "chief-0", "--tail", "1") == "bye\n"
    assert on_nodes("logs", "hello", "chief-0", "-f") == "chief\nbye\n"


def test_a_restart_is_told_and_both_attempts_are_kept_when_the_pods_and_the_job_are_gone(
    on_nodes: CommandLine, node_cluster: Client, nodes_namespace: str
) -> None:
    limited = yaml.safe_load(manifest("again", "ExitCode", worker="echo attempt; sleep 2; exit 137"))
    limited["spec"]["runPolicy"] = {"backoffLimit": 1}
    shown = on_nodes("run", "-", stdin=yaml.safe_dump(limited), code=1)
    assert shown.count("worker-0 | attempt") == 2
    assert any(line.startswith("! again: ") and "worker-0" in line and "SIGKILL" in line for line in shown.splitlines())
    assert "\nagain " in shown[shown.rindex("worker-0 | attempt\n") :]
    assert on_nodes("logs", "again", "--previous") == "worker-0 | attempt\n"
    node_cluster.kubectl("delete", "tfjob", "again", "-n", nodes_namespace)
    assert on_nodes("logs", "again") == "worker-0 | attempt\n"
    assert on_nodes("logs", "again", "--previous") == "worker-0 | attempt\n"
    (row,) = [line for line in on_nodes("ps", "-a").splitlines() if line.startswith("again")]
    record = row.split()[0]
    assert record.startswith("again.")
    assert "again" not in on_nodes("ps")
    check_cluster_golden("nodes-record", on_nodes("stop", "again", code=2), RECORD=record)
    assert record in on_nodes("delete", "again")
    assert "again" in on_nodes("logs", "again", code=3)


def test_a_follower_goes_on_through_a_restart_in_place_and_the_previous_run_can_be_read(
    on_nodes: CommandLine, ticking: str
) -> None:
    with ending(start(on_nodes, "logs", ticking, "worker-0/tensorflow", "-f", "--tail", "1")) as follower:
        lines = lines_until(follower, "tick")
        on_nodes("exec", ticking, "worker-0", "--", "touch", "/tmp/die")
        wait_until(lambda: json.loads(on_nodes("status", ticking, "-o", "json"))["restarts"] == 1, 60)
        previous = on_nodes("logs", ticking, "worker-0/tensorflow", "--previous").splitlines()
        assert previous[-1] == "dying"
        lines += lines_until(follower, "dying")
        lines += lines_until(follower, "tick 3")
        lines += interrupted(follower)
    first = lines[lines.index("dying") + 1 :]
    assert first[:3] == ["tick 1", "tick 2", "tick 3"]
    before = [line for line in lines[: lines.index("dying")] if line.startswith("tick")]
    assert before == sorted(set(before), key=lambda line: int(line.split()[1])), "no line is told twice"


def test_a_follower_and_an_attached_run_go_on_when_the_api_server_was_away(
    on_nodes: CommandLine, node_cluster: Client, nodes_namespace: str, tmp_path: Path
) -> None:
    with faulty_door(node_cluster.kubeconfig, tmp_path) as door, ExitStack() as stack:
        behind = on_cluster(on_nodes.tool, door.kubeconfig, nodes_namespace, tmp_path)
        attached = stack.enter_context(ending(start(behind, "run", "-", stdin=manifest("through", worker=TICKS))))
        wait_until(lambda: "tick 2" in on_nodes.run("logs", "through").stdout, 90)
        follower = stack.enter_context(ending(start(behind, "logs", "through", "worker-0", "-f")))
        wait_until(lambda: sum("follow=true" in one for one in open_requests(door)) == 2, 60)
        door.close()
        before = lines_until(attached, "cannot reach the API server")
        wait_until(lambda: door.turned_away > 2, 60)
        door.reopen()
        last = ticks(on_nodes("logs", "through"))[-1] + 3
        wait_until(lambda: ticks(on_nodes("logs", "through"))[-1] > last, 60)
        on_nodes("exec", "through", "worker-0", "--", "touch", "/tmp/die")
        followed, _ = follower.communicate(timeout=90)
        rest, _ = attached.communicate(timeout=90)
    shown = "\n".join([*before, rest])
    assert (follower.returncode, attached.returncode) == (0, 1)
    for text in (followed, shown):
        numbers = ticks(text)
        assert numbers == list(range(1, numbers[-1] + 1)), text
        assert "dying" in text
        assert numbers[-1] > last
    assert shown.count("cannot reach the API server") == 1
    assert any(line.startswith("through ") for line in rest.splitlines())


def ticks(text: str) -> list[int]:
    """The numbers that a ticking replica has said."""
    return [int(line.rpartition("tick ")[2]) for line in text.splitlines() if "tick " in line and line[0] in "tw"]


def open_requests(door: Door) -> list[str]:
    """What is being read through a door."""
    return [request.path_qs for request in list(door._open.values())]


def test_the_containers_of_a_replica_are_told_apart(on_nodes: CommandLine, ticking: str) -> None:
    assert "worker-0/sidecar    | beside" in on_nodes("logs", ticking).splitlines()
    assert on_nodes("logs", ticking, "worker-0/sidecar") == "beside\n"
    said = on_nodes("logs", ticking, "worker-0/other", code=3)
    check_cluster_golden("nodes-no-replica", said.splitlines()[0])


def test_a_command_in_a_replica_has_its_input_output_and_exit_code(on_nodes: CommandLine, ticking: str) -> None:
    assert on_nodes("exec", ticking, "worker-0", "--", "hostname") == "ticking-worker-0\n"
    assert on_nodes("exec", ticking, "worker-0", "--", "cat", stdin="some\ninput") == "some\ninput"
    done = on_nodes.run(
        "exec", ticking, "worker-0", "-c", "sidecar", "--", "sh", "-c", "echo out; echo err >&2; exit 7"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 7)
    assert 'exec: "nosuch"' in on_nodes("exec", ticking, "worker-0", "--", "nosuch", code=127)
    assert "worker-1" in on_nodes("exec", ticking, "worker-1", "--", "ls", code=3)
    assert "worker-0" in on_nodes("exec", ticking, "worker-0", "-c", "x", "--", "ls", code=3)
    large = on_nodes.run("exec", ticking, "worker-0", "--", "sh", "-c", "yes 0123456789 | head -c 3000000")
    assert len(large.stdout) == 3_000_000


def test_a_shell_in_a_replica_has_a_terminal_of_our_size(on_nodes: CommandLine, ticking: str) -> None:
    import fcntl
    import pty
    import struct
    import termios

    resized = "until [ \"$(stty size)\" = '33 77' ]; do sleep 0.1; done; stty size; exit 5"
    pid, terminal = pty.fork()
    if pid == 0:
        words = ["exec", ticking, "worker-0", "--", "sh", "-c", resized]
        os.execvpe(on_nodes.tool.command[0], [*on_nodes.tool.command, *words], on_nodes.environment())
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    screen = b""
    try:
        while data := os.read(terminal, 1000):
            screen += data
    except OSError:
        pass  # the other end is closed
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 5, screen
    assert b"33 77\r\n" in screen


def test_a_terminal_shows_the_same_live_view_as_on_a_laptop_and_ctrl_c_detaches(
    on_nodes: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "live.yaml").write_text(manifest("live", chief="echo Epoch 2/3; sleep 1000", worker=TICKS))
    environment = {name: value for name, value in on_nodes.environment().items() if name != "COLUMNS"}
    with tmux(environment, tmp_path, 80, 24) as terminal:
        terminal.type(f"clear; {' '.join(on_nodes.tool.command)} run live.yaml; echo code $?")
        terminal.wait_for(r"── live · Running 2/2 · \d+s\n  REPLICA +STATE +RESTARTS +CPU +MEMORY +STEP", 90)
        terminal.wait_for(r"^  chief-0 +Running +0 +- +- +epoch 2/3$")  # nobody measures in this cluster
        terminal.wait_for(r"^  worker-0 +Running +0 +- +- +tick \d+\nCtrl-C ")
        assert "worker-0 | tick 1\n" in terminal.everything()
        terminal.press("C-c")
        terminal.wait_for("^code 130$")
        assert "tfjob stop live" in terminal.everything()
        assert "── live" not in terminal.everything()
        assert terminal.has_cursor
    on_nodes("delete", "live")


def test_a_detached_job_runs_on_and_its_lines_so_far_are_kept(
    on_nodes: CommandLine, node_cluster: Client, nodes_namespace: str
) -> None:
    with ending(start(on_nodes, "run", "-", stdin=manifest("left", worker=TICKS))) as attached:
        shown = lines_until(attached, "tick 2") + interrupted(attached)
    assert any("tfjob stop left --on k8s" in line for line in shown)
    assert "worker-0 | tick 1" in shown
    assert "Running" in on_nodes("wait", "left", "--for", "running", "--timeout", "30s")
    with ending(start(on_nodes, "attach", "left")) as attached:
        lines_until(attached, f"tick {ticks(chr(10).join(shown))[-1] + 3}")
        interrupted(attached)
    on_nodes("stop", "left")
    kept = ticks(on_nodes("logs", "left"))
    assert kept == list(range(1, len(kept) + 1)), "the record continues where the first command detached"
    on_nodes("delete", "left")


def test_a_bundle_has_the_pods_and_the_ends_of_their_logs(on_nodes: CommandLine, ticking: str, tmp_path: Path) -> None:
    file = tmp_path / "bundle.tar.gz"
    on_nodes("debug-dump", ticking, "--file", str(file))
    with tarfile.open(file) as archive:
        names = {entry.name.partition("/")[2] for entry in archive}
        logs = archive.extractfile("ticking-debug/logs.txt")
        assert logs is not None
        assert b"worker-0/tensorflow | tick 1" in logs.read()
    assert {"job.yaml", "pods.yaml", "events.yaml", "cluster.yaml", "logs-previous.txt"} <= names
