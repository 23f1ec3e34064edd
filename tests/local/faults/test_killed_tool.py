"""The tool dies: `run`, or any part of it, is killed -9 at random moments. Nothing stays behind, nothing is lost.

    pytest tests/local/faults/test_killed_tool.py --long --scale 1 --seed 7      a hundred kills

A round runs a job whose replicas print numbered lines and note in a file how far they are, kills something, and looks
at what is left: processes, the record, the logs; then the same job is run again.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.installed import Installed
from support.local.warm_pods import end_fork_servers, standin_python
from support.long_form import Scaled
from support.running import Running, command_of, processes_of, status, wait_until

pytestmark = pytest.mark.faults

LINES = 150
PROGRAM = f"""
import fcntl, os, struct, subprocess, sys, termios, time
if os.fork() == 0:
    os.setsid()
    os.execvp('sleep', ['sleep', '600'])  # what a program leaves behind
noted = os.open(f"{{sys.argv[1]}}/{{os.environ['TFJOB_POD']}}", os.O_CREAT | os.O_WRONLY)
most = 0
for number in range({LINES}):
    os.write(1, b'line %d\\n' % number)
    (unread,) = struct.unpack('i', fcntl.ioctl(1, termios.FIONREAD, bytes(4)))
    most = max(most, unread)
    os.pwrite(noted, b'%6d %6d' % (number, most), 0)
    os.fsync(noted)
    time.sleep(0.002)
"""
IMPORT_SECONDS = 0.3
"""What the stand-in for TensorFlow takes to import: long enough to be killed meanwhile."""
LATEST_KILL = 2.5
"""Seconds after the start; by then the job is over, on a machine that does nothing else."""
PATIENCE = 120.0
"""A supervisor looks for its tool every 2 s, gives a grace of 1 s and an init 2 s more; one that was just begun has its
own start before that, and all of it may have to wait for a busy machine."""
LOST_LINES = 3
"""Lines that a replica may lose when its supervisor is killed, in addition to what a busy machine keeps unread: that is
in the pipe, or the supervisor has just read it."""
SHORTEST_LINE = len("line 0\n")
LONGEST_WAIT = 0.6
"""Seconds for which a part is let alone once it is there: about as long as a replica runs."""

TOOL, SUPERVISOR, INIT, REPLICA, FORK_SERVER, DRIVER, FOLLOWER, ALL = (
    *("tool", "supervisor", "init", "replica", "fork server", "driver", "follower", "all at once"),
)
VICTIMS = {
    "cold": (TOOL, TOOL, SUPERVISOR, INIT, REPLICA, ALL),
    "warm": (TOOL, TOOL, SUPERVISOR, REPLICA, FORK_SERVER, ALL),
    "detached": (TOOL, DRIVER, DRIVER, SUPERVISOR, FOLLOWER, ALL),
}
"""By the way in which the job is run; what dies most often by far is the tool itself."""


@dataclass
class Series:
    """Rounds in one state folder."""

    tool: Installed
    folder: Path
    way: str
    chance: random.Random
    level: str = "full"
    kills: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    lost_lines: int = 0

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def claim(self) -> Path:
        """Where the replicas note how far they are, a file for each pod."""
        return self.home / "claims" / "default" / "counters"

    def write(self) -> None:
        """The job, and what it runs."""
        container = {
            "name": "tensorflow",
            "image": "standin:1",
            "command": ["python", "count.py", "/counters"],
            "volumeMounts": [{"name": "counters", "mountPath": "/counters"}],
        }
        volume = {"name": "counters", "persistentVolumeClaim": {"claimName": "counters"}}
        pod = {"terminationGracePeriodSeconds": 1, "containers": [container], "volumes": [volume]}
        worker = {"replicas": 2, "restartPolicy": "ExitCode", "template": {"spec": pod}}
        spec = {"successPolicy": "AllWorkers", "tfReplicaSpecs": {"Worker": worker}}
        job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "count"}, "spec": spec}
        self.folder.mkdir(exist_ok=True)
        (self.folder / "job.yaml").write_text(yaml.safe_dump(job))
        (self.folder / "count.py").write_text(PROGRAM)
        if self.way == "warm":
            standin_python(self.folder / "venv")
            (packages,) = (self.folder / "venv").glob("lib/python3.*/site-packages")
            (packages / "tensorflow.py").write_text(
                f"import time; time.sleep({IMPORT_SECONDS}); __version__ = 'stand-in'"
            )

    def words(self) -> list[str]:
        """What comes after `run`."""
        warm = ["--warm", "--python", str(self.folder / "venv" / "bin" / "python")] if self.way == "warm" else []
        return [str(self.folder / "job.yaml"), "--level", self.level, *warm]

    def round(self) -> None:
        """One kill; draws again while there was nothing to kill."""
        while True:
            if self.chance.random() < 0.5:
                end_fork_servers(self.home)  # else the next run finds one that waits for it
            waiting = {pid for pid in processes_of(self.home) if role(pid, 0) == FORK_SERVER}
            victim = self.chance.choice(VICTIMS[self.way])
            command = "run" if self.attached else "submit"
            with Running(self.tool, self.home, *self.words(), command=command) as running:
                dead = self.kill(victim, running)
                code = running.finish()
            if dead:
                break
            assert code == 0, running.lines
            self.settle()
        self.kills[victim] += 1
        assert code == (-signal.SIGKILL if running.process.pid in dead else 0), (victim, code, running.lines)
        if self.attached and code:
            self.nothing_is_left(victim, waiting)
            self.was_interrupted()
        else:
            self.goes_on(victim, maybe_nothing=bool(code))
        self.logs_are_whole(victim)
        self.runs_again()

    def kill(self, victim: str, running: Running) -> list[int]:
        """The processes that were killed: one, or all that there are."""
        if victim == FOLLOWER:
            assert running.finish() == 0, running.lines
            return self.kill_follower()
        self.wait_for(victim, running)
        tool = running.process.pid if running.process.poll() is None else 0
        parts = {pid: part for pid in processes_of(self.home) if (part := role(pid, tool))}
        chosen = [pid for pid, part in parts.items() if victim in (part, ALL)]
        self.chance.shuffle(chosen)
        if self.attached and victim == ALL and tool not in chosen:
            return []
        dead = []
        for pid in chosen if victim == ALL else chosen[:1]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            dead.append(pid)
        return dead

    def wait_for(self, victim: str, running: Running) -> None:
        """Until the moment of the kill: any since the start, or any of the life of the part, or of a replica."""
        if victim in (TOOL, ALL) and self.chance.random() < 0.5:
            time.sleep(self.chance.uniform(0.0, LATEST_KILL))
            return
        awaited = REPLICA if victim in (TOOL, ALL) else victim
        while not any(role(pid, 0) == awaited for pid in processes_of(self.home)):
            if running.process.poll() is not None and (self.attached or victim == TOOL):
                return
            time.sleep(0.01)
        time.sleep(self.chance.uniform(0.0, LONGEST_WAIT))

    def kill_follower(self) -> list[int]:
        with Running(self.tool, self.home, "count", "-f", command="logs") as following:
            time.sleep(self.chance.uniform(0.0, LONGEST_WAIT))
            following.process.kill()
        return [following.process.pid]

    @property
    def attached(self) -> bool:
        return self.way != "detached"

    def nothing_is_left(self, victim: str, waiting: set[int]) -> None:
        """But for a fork server of an earlier run that this one had not come to use."""
        begun = time.monotonic()
        if victim == ALL and self.level != "full":
            # Nobody lives that could look after what a program left behind; all else ends of itself.
            wait_until(
                lambda: {pid for pid in processes_of(self.home) if not is_left_behind(pid)} <= waiting,
                PATIENCE,
                lambda: f"{victim}: {shown(self.home)}",
            )
            self.tool.tfjob(self.home, "ps")
        wait_until(lambda: set(processes_of(self.home)) <= waiting, PATIENCE, lambda: f"{victim}: {shown(self.home)}")
        self.slowest = max(self.slowest, time.monotonic() - begun)

    def was_interrupted(self) -> None:
        """What the record says: cut off, unless it was not there yet or the job was over."""
        found = self.tool.tfjob(self.home, "status", "count", "-o", "json")
        assert found.returncode in (0, 3), found.stderr
        if found.returncode == 0:
            status = json.loads(found.stdout)
            stands = (status["state"], status["reason"])
            assert status["state"] == "Succeeded" or stands == ("Suspended", "Interrupted"), stands
        self.settle()

    def goes_on(self, victim: str, *, maybe_nothing: bool) -> None:
        """Without a part, the job comes to its end all the same: in the tool, or by the next command."""
        if not self.attached:
            done = self.tool.tfjob(self.home, "wait", "count", "--timeout", "150")
            assert done.returncode == 0 or (done.returncode == 3 and maybe_nothing), (victim, done.stdout, done.stderr)
        self.settle()

    def settle(self) -> None:
        """Nothing runs but a fork server that nobody uses."""
        wait_until(lambda: not self.left(), PATIENCE, lambda: f"left: {shown(self.home)}")

    def left(self) -> list[int]:
        return [pid for pid in processes_of(self.home) if role(pid, 0) != FORK_SERVER]

    def pods(self) -> Iterator[tuple[Path, str]]:
        """The folder and the uid of every pod of the newest run that came to have a supervisor."""
        runs = sorted(self.home.glob("runs/default/count.*"), key=lambda folder: int(folder.suffix[1:]))
        for file in runs[-1].glob("pods/*/spec.json") if runs else ():
            yield file.parent, json.loads(file.read_text())["uid"]

    def logs_are_whole(self, victim: str) -> None:
        """Every line that a replica has noted is in its log, none is torn, none is missing before another."""
        for folder, uid in self.pods():
            noted = self.claim / uid
            written, unread = map(int, (noted.read_text() if noted.exists() else "").split() or (-1, 0))
            lines = said(folder)
            assert lines == [f"line {number}" for number in range(len(lines))], (victim, lines)
            lost = written + 1 - len(lines)
            self.lost_lines += max(lost, 0)
            # What was in the pipe is lost with the process that reads it.
            most = LOST_LINES + 2 * unread // SHORTEST_LINE if victim in (SUPERVISOR, ALL) else 0
            assert lost <= most, (victim, str(folder), lost, unread)

    def runs_again(self) -> None:
        done = self.tool.tfjob(self.home, "run", *self.words())
        assert done.returncode == 0, done.stdout + done.stderr
        assert [len(said(folder)) for folder, _ in self.pods()] == [LINES, LINES]
        self.settle()


def said(pod: Path) -> list[str]:
    """The lines in the log of a pod."""
    log = pod / "logs" / "tensorflow" / "0" / "log"
    return [record.split(" ", 3)[3] for record in log.read_text().splitlines()] if log.exists() else []


def role(pid: int, tool: int) -> str:
    """Which part of the tool a process is; empty for what a program left behind and for what is gone."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
    if pid == tool:
        return TOOL
    if name == "tfjob-init":
        return INIT
    for mark, part in ((b"count.py", REPLICA), (b"tfjob.launch.background", DRIVER), (b"fork_server", FORK_SERVER)):
        if mark in words:
            return part
    return SUPERVISOR if b"pod_process" in words or words.startswith(b"tfjob-pod") else ""


def is_left_behind(pid: int) -> bool:
    """Whether a process is what the program left behind, or gone."""
    return command_of(pid) in (b"sleep\0" + b"600\0", b"")


def shown(home: Path) -> list[str]:
    """The processes of a state folder, for people."""
    return [f"{pid} {command_of(pid).replace(bytes(1), b' ').decode()[:300]}" for pid in processes_of(home)]


def killed(tool: Installed, folder: Path, way: str, seed: int, rounds: int, **more: Any) -> Series:
    series = Series(tool, folder, way, random.Random(f"{way} {seed}"), **more)
    series.write()
    begun = time.monotonic()
    try:
        for number in range(rounds):
            try:
                series.round()
            except BaseException:
                print(f"seed {seed}, {way}, round {number}, kills {dict(series.kills)}")
                raise
    finally:
        end_fork_servers(series.home)
    print(
        f"{way} {series.level}: {dict(series.kills)}, gone in at most {series.slowest:.1f} s, "
        f"{series.lost_lines} lines lost with their supervisor, {time.monotonic() - begun:.0f} s"
    )
    return series


@pytest.mark.parametrize(("way", "rounds"), [("cold", 2), ("warm", 2), ("detached", 1)])
def test_killed_at_a_random_moment(tool: Installed, tmp_path: Path, seed: int, way: str, rounds: int) -> None:
    """No process survives, the record says interrupted or the job goes on, the logs are whole, it runs again."""
    killed(tool, tmp_path / "series", way, seed, rounds)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("way", "level", "rounds"),
    [
        ("cold", "full", 35),
        ("warm", "full", 30),
        ("detached", "full", 15),
        ("cold", "addresses", 10),
        ("cold", "ports", 10),
    ],
)
def test_killed_at_many_random_moments(
    tool: Installed, tmp_path: Path, seed: int, scaled: Scaled, way: str, level: str, rounds: int
) -> None:
    killed(tool, tmp_path / "series", way, seed, scaled(rounds), level=level)


KILLED_ONCE_STORED = """
import os, signal
from tfjob.local.state.store import Store
add_run = Store.add_run
Store.add_run = lambda *words, **more: (add_run(*words, **more), os.kill(os.getpid(), signal.SIGKILL))
from tfjob.cli.main import cli
cli()
"""


@pytest.mark.parametrize(("command", "state"), [("run", "Suspended"), ("submit", "Succeeded")])
def test_a_job_that_was_just_stored_can_be_driven(tool: Installed, tmp_path: Path, command: str, state: str) -> None:
    """Whoever stored it may be killed in the next instant: all that a driver needs is there."""
    series = Series(tool, tmp_path / "series", "detached", random.Random(0))
    series.write()
    dying = Installed((sys.executable, "-c", KILLED_ONCE_STORED), tool.env)
    assert dying.tfjob(series.home, command, *series.words()).returncode == -signal.SIGKILL
    tool.tfjob(series.home, "ps")
    series.settle()
    assert status(tool, series.home, "count")["state"] == state
    series.runs_again()


@pytest.mark.parametrize("level", ["addresses", "ports"])
def test_what_a_program_left_behind_ends_with_its_supervisor(tool: Installed, tmp_path: Path, level: str) -> None:
    """Also where no pid namespace takes it along, and nobody else is there who could look for it."""
    series = Series(tool, tmp_path / "series", "cold", random.Random(0), level)
    series.write()
    (series.folder / "count.py").write_text(PROGRAM.replace("0.002", "0.5"))

    def all_run() -> bool:
        found = processes_of(series.home)
        return [role(pid, 0) for pid in found].count(REPLICA) == 2 and sum(map(is_left_behind, found)) == 2

    with Running(tool, series.home, *series.words()) as running:
        wait_until(all_run, PATIENCE, lambda: f"{shown(series.home)}")
        running.process.send_signal(signal.SIGSTOP)
        for pid in processes_of(series.home):
            if role(pid, 0) == SUPERVISOR:
                os.kill(pid, signal.SIGKILL)
        wait_until(
            lambda: all(role(pid, running.process.pid) == TOOL for pid in processes_of(series.home)),
            PATIENCE,
            lambda: f"{shown(series.home)}",
        )
    tool.tfjob(series.home, "ps")
    series.settle()
