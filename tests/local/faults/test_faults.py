"""What happens when things go wrong around a job: killed tools, killed drivers, full disks, taken ports and names."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.command_line import GOLDEN
from support.conformance.manifests import remembering, replica, tfjob
from support.golden import check_golden
from support.installed import Installed
from support.running import Running, is_alive, pod_folders, processes_of, status, wait_until, workload_pid

pytestmark = pytest.mark.faults

STANDIN = Path(__file__).parents[2] / "support" / "conformance" / "standin.py"


def write(folder: Path, *documents: dict[str, Any]) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "standin.py").write_bytes(STANDIN.read_bytes())
    (folder / "job.yaml").write_text(yaml.safe_dump_all(documents))
    return str(folder / "job.yaml")


@pytest.mark.parametrize("level", ["full", "addresses", "ports"])
def test_replicas_die_with_an_attached_tool_that_is_killed(
    tool: Installed, home: Path, tmp_path: Path, level: str
) -> None:
    """kill -9 of `run`: no orphan, the true exit codes are recorded, and the job is Suspended until `resume`."""
    file = write(tmp_path / "job", tfjob("cut", {"Worker": replica("sleep", "600", count=2)}))
    with Running(tool, home, file, "--level", level) as run:
        pids = [workload_pid(home, f"cut-worker-{index}") for index in range(2)]
        run.process.kill()
        run.finish()
    wait_until(lambda: not any(is_alive(pid) for pid in pids), 60)
    wait_until(lambda: status(tool, home, "cut")["state"] == "Suspended", 60)
    assert status(tool, home, "cut")["reason"] == "Interrupted"

    def codes() -> list[int]:
        return [one["exitCode"] for one in status(tool, home, "cut")["replicas"]]  # type: ignore[attr-defined]

    wait_until(lambda: codes() == [143, 143], 60, lambda: str(codes()))
    wait_until(lambda: processes_of(home) == [], 60)


def test_a_detached_job_survives_its_killed_driver(tool: Installed, home: Path, tmp_path: Path) -> None:
    """kill -9 of the background driver: the replicas go on, the next command drives again, every code is true."""
    file = write(tmp_path / "job", tfjob("kept", {"Worker": remembering("until", "/shared/enough")}))
    assert tool.tfjob(home, "submit", file).returncode == 0
    pid = workload_pid(home, "kept-worker-0")
    kill_drivers(home)
    assert is_alive(pid)
    claim_file(home, "enough").touch()
    waited = tool.tfjob(home, "wait", "kept", "--timeout", "120")
    assert waited.returncode == 0, waited.stderr
    assert len(pod_folders(home, "kept-worker-0")) == 1, "the replica must have run exactly once"
    wait_until(lambda: processes_of(home) == [], 60)


def test_a_driver_may_be_killed_at_any_moment(tool: Installed, home: Path, tmp_path: Path) -> None:
    """Killed every few tenths of a second, the job still runs each replica once and records every true code."""
    job = tfjob(
        "storm",
        {
            "Chief": remembering("until", "/shared/enough"),
            "Worker": replica("sleep", "1", "exit", "0", count=2),
            "PS": replica("sleep", "3600"),
        },
    )
    file = write(tmp_path / "job", job)
    assert tool.tfjob(home, "submit", file).returncode == 0
    for pause in (0.3, 0.5, 0.2, 0.7, 0.4, 0.6):
        time.sleep(pause)
        kill_drivers(home)
        tool.tfjob(home, "ps")
    workers = ("storm-worker-0", "storm-worker-1")

    def have_ended() -> bool:
        tool.tfjob(home, "ps")  # the last one may have seen the lock of a driver that was not quite dead
        return all(exit_codes(home, pod) == [0] for pod in workers)

    wait_until(have_ended, 60, lambda: str(told(home)))
    claim_file(home, "enough").touch()
    assert tool.tfjob(home, "wait", "storm", "--timeout", "120").returncode == 0
    for pod in ("storm-chief-0", *workers):
        assert exit_codes(home, pod) == [0], f"{pod} must have run exactly once"
    assert status(tool, home, "storm")["restarts"] == 0
    wait_until(lambda: processes_of(home) == [], 60)


def test_a_supervisor_that_is_killed_takes_its_pod_with_it(tool: Installed, home: Path, tmp_path: Path) -> None:
    """The loss counts as infrastructure: the replica starts again even under Never, and no retry is used up."""
    file = write(tmp_path / "job", tfjob("orphan", {"Worker": remembering("once", "/shared/orphan", "sleep", "600")}))
    with Running(tool, home, file) as run:
        pid = workload_pid(home, "orphan-worker-0")
        wait_until(claim_file(home, "orphan").exists, 60)
        folder = pod_folders(home, "orphan-worker-0")[0]
        os.kill(json.loads((folder / "supervisor.json").read_text())["pid"], signal.SIGKILL)
        wait_until(lambda: not is_alive(pid), 60)
        assert run.finish() == 0
    shown = status(tool, home, "orphan")
    assert shown["restarts"] == 1
    assert shown["status"].get("retries", 0) == 0  # type: ignore[attr-defined]


def test_a_deaf_replica_is_killed_after_its_grace(tool: Installed, home: Path, tmp_path: Path) -> None:
    """A program that swallows SIGTERM, as collectives do, ends by SIGKILL when its grace is over.

    It would exit with another code before the default grace of 30 s is over.
    """
    deaf = replica("deaf", "say", "ready", "sleep", "25", "exit", "9", grace=1)
    file = write(tmp_path / "job", tfjob("deaf", {"Worker": deaf}))
    with Running(tool, home, file) as run:
        run.wait_for("ready")
        begun = time.monotonic()
        assert tool.tfjob(home, "stop", "deaf").returncode == 0
        assert time.monotonic() - begun > 0.9
        assert run.finish() == 130
    assert status(tool, home, "deaf")["replicas"][0]["exitCode"] == 137  # type: ignore[index]


def test_a_port_taken_on_the_host_is_replaced(tool: Installed, home: Path, tmp_path: Path) -> None:
    """A program that listens on every address keeps its port; the job gets another one and says so."""
    with socket.socket() as server:
        server.bind(("0.0.0.0", 0))
        server.listen()
        port = server.getsockname()[1]
        spec = replica("serve", "meet", "hosted", count=2, ports=[{"name": "tfjob-port", "containerPort": port}])
        file = write(tmp_path / "job", tfjob("taken", {"Worker": spec}, successPolicy="AllWorkers"))
        done = tool.tfjob(home, "run", file)
    assert done.returncode == 0, done.stdout + done.stderr
    (warning,) = [line for line in (done.stdout + done.stderr).splitlines() if ".containerPort: " in line]
    assert f" {port} " in warning
    shown = warning.replace(file, "MANIFEST").replace(f" {port} ", " PORT ")
    shown = re.sub(r"by \S+ \(process \d+\)", "by PROGRAM (process PID)", shown)
    check_golden(GOLDEN / "run-port-taken.txt", f"{shown}\n")


def test_a_name_in_use_is_refused_and_a_finished_one_is_used_again(tool: Installed, home: Path, tmp_path: Path) -> None:
    """While a job runs its name is taken (exit 2); afterwards the name means the new run, and the old record stays."""
    file = write(tmp_path / "job", tfjob("twice", {"Worker": remembering("say", "ready", "until", "/shared/enough")}))
    with Running(tool, home, file) as first:
        first.wait_for("ready")
        second = tool.tfjob(home, "run", file)
        assert second.returncode == 2
        assert "--name" in second.stderr
        claim_file(home, "enough").touch()
        assert first.finish() == 0
    assert tool.tfjob(home, "run", file).returncode == 0
    listed = json.loads(tool.tfjob(home, "ps", "-a", "-o", "json").stdout)["items"]
    assert [item["id"] for item in listed] == ["twice.1", "twice.2"]
    assert "ready" in tool.tfjob(home, "logs", "twice.1").stdout


def test_two_runs_at_once_do_not_disturb_each_other(tool: Installed, home: Path, tmp_path: Path) -> None:
    """Both jobs listen on port 2222 of their own addresses at the same time."""
    replicas = {"Worker": replica("serve", "meet", "hosted", count=2)}
    files = [write(tmp_path / name, tfjob(name, replicas, successPolicy="AllWorkers")) for name in ("one", "two")]
    with Running(tool, home, files[0]) as one, Running(tool, home, files[1]) as two:
        assert [one.finish(), two.finish()] == [0, 0]


@pytest.mark.root
def test_a_full_disk_loses_output_but_no_verdict(tool: Installed, tmp_path: Path) -> None:
    """The job goes on, its exit code is recorded, reading commands work, and what was lost is said."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], check=True)
    try:
        home = disk / "home"
        noise = "import sys\nfor i in range(60000): print('x' * 100)\nsys.exit(21)"
        spec = replica()
        spec["template"]["spec"]["containers"][0]["command"] = ["python", "-c", noise]
        file = write(tmp_path / "job", tfjob("noisy", {"Worker": spec}))
        done = tool.tfjob(home, "run", file, timeout=90)
        assert done.returncode == 1, done.stdout[-2000:] + done.stderr
        events = json.loads(tool.tfjob(home, "events", "noisy", "-o", "json").stdout)["items"]
        report = [str(event["message"]) for event in events if event["reason"] == "LogLost"][-1]
        (lost,) = re.findall(r"([\d,]+) bytes", report)
        assert 2 * 60_000 * 101 > int(lost.replace(",", "")) > 3_000_000
        for shown in (done.stdout, tool.tfjob(home, "status", "noisy").stdout):
            assert f"{lost} bytes" in shown
        assert status(tool, home, "noisy")["failure"]["exitCode"] == 21  # type: ignore[index]
        assert tool.tfjob(home, "ps").returncode == 0
        assert tool.tfjob(home, "logs", "noisy", "--tail", "1").returncode == 0
    finally:
        subprocess.run(["umount", str(disk)], check=True)


NOISE = """
import pathlib, time
print("up", flush=True)
while not pathlib.Path("fill").exists():
    time.sleep(0.02)
while not pathlib.Path("full").exists():
    print("x" * 10_000)
while not pathlib.Path("go").exists():
    time.sleep(0.02)
print("done", flush=True)
"""


@pytest.mark.root
@pytest.mark.parametrize("attached", [True, False])
def test_lost_output_is_reported_while_the_disk_is_full(tool: Installed, tmp_path: Path, attached: bool) -> None:
    """The run and `status` report it with its amount, although nothing can be stored; `events` once it can be."""
    disk, job = tmp_path / "disk", tmp_path / "job"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], check=True)
    try:
        home, ballast = disk / "home", disk / "ballast"
        ballast.write_bytes(bytes(1 << 20))
        spec = replica()
        spec["template"]["spec"]["containers"][0]["command"] = ["python", "-c", NOISE]
        file = write(job, tfjob("noisy", {"Worker": spec}))

        def lost() -> int:
            (found,) = json.loads(tool.tfjob(home, "status", "noisy", "-o", "json").stdout)["replicas"]
            assert found["phase"] in ("Pending", "Running")
            return int(found["logLost"])

        with Running(tool, home, file, command="run" if attached else "submit") as run:
            wait_until(lambda: "up" in tool.tfjob(home, "logs", "noisy").stdout, 60)
            wait_until(lambda: status(tool, home, "noisy").get("state") == "Running", 60)
            (job / "fill").touch()
            wait_until(lambda: lost() > 100_000, 120)
            if attached:
                run.wait_for("bytes of its log are lost so far", count=2)
            (job / "full").touch()
            assert "lost  " in tool.tfjob(home, "status", "noisy").stdout
            ballast.unlink()
            wait_until(lambda: "so far" in tool.tfjob(home, "events", "noisy").stdout, 60)
            (job / "go").touch()
            assert run.finish() == 0
            assert tool.tfjob(home, "wait", "noisy", "--timeout", "60s").returncode == 0
            (found,) = json.loads(tool.tfjob(home, "status", "noisy", "-o", "json").stdout)["replicas"]
            if attached:
                assert f"  worker-0: {found['logLost']:,} bytes" in "\n".join(run.lines)
            events = json.loads(tool.tfjob(home, "events", "noisy", "-o", "json").stdout)["items"]
            told = [str(event["message"]) for event in events if event["reason"] == "LogLost"]
            assert any(f"{found['logLost']:,} bytes" in message for message in told)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.root
def test_a_read_only_state_folder_can_be_read(tool: Installed, home: Path, tmp_path: Path) -> None:
    """`ps`, `status`, `logs` and `events` work; `run` is refused with one clear sentence and exit code 2."""
    file = write(tmp_path / "job", tfjob("record", {"Worker": replica("say", "kept")}))
    assert tool.tfjob(home, "run", file).returncode == 0
    subprocess.run(["mount", "--bind", str(home), str(home)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(home)], check=True)
        assert "Succeeded" in tool.tfjob(home, "ps").stdout
        assert "kept" in tool.tfjob(home, "logs", "record").stdout
        assert status(tool, home, "record")["state"] == "Succeeded"
        assert tool.tfjob(home, "events", "record").returncode == 0
        refused = tool.tfjob(home, "run", file, "--name", "other")
        assert refused.returncode == 2
        assert refused.stderr.startswith("error: ")
    finally:
        subprocess.run(["umount", str(home)], check=True)


def claim_file(home: Path, name: str) -> Path:
    """What replicas that `remember` see as /shared/NAME."""
    return home / "claims" / "default" / "shared" / name


def exit_codes(home: Path, pod: str) -> list[int | None]:
    """How the pods of a name ended, the newest last; None for one that has not."""
    files = (folder / "status.json" for folder in pod_folders(home, pod))  # there once a supervisor is in charge
    statuses = [json.loads(file.read_text()) for file in files if file.exists()]
    states = [one["containerStatuses"][0]["state"] for one in statuses]
    return [state["terminated"]["exitCode"] if "terminated" in state else None for state in states]


def told(home: Path) -> dict[str, str]:
    """What every supervisor of a state folder has written last."""
    return {str(file.parent.name): file.read_text() for file in home.glob("runs/*/*/pods/*/status.json")}


def kill_drivers(home: Path) -> None:
    """kill -9 of every background driver of a state folder."""
    for entry in os.listdir("/proc"):
        try:
            words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0") if entry.isdigit() else []
        except OSError:
            continue
        if b"tfjob.launch.background" in words and str(home).encode() in words:
            with suppress(ProcessLookupError):  # it may have come to its end meanwhile
                os.kill(int(entry), signal.SIGKILL)
