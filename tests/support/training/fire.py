"""Trainings that count their steps, and what happens to them meanwhile; as processes of this machine or as pods."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from support.running import Running, wait_until

Object = dict[str, Any]
PROGRAM = Path(__file__).with_name("counted_training.py")
JOB, CLAIM = "fire", "fire-data"
STEPS, CHECKPOINT_EVERY, PACE = 80, 10, 0.1
MOST_REPEATED = CHECKPOINT_EVERY + 1
"""Steps that are taken again because of one incident: those since the last checkpoint, and one more whose update came
just before."""
PATIENCE = 150.0
"""Seconds that a start of everybody may take on a machine that does much else."""

COLLECTIVE, SERVERS = "collective", "servers"
SHAPES = {COLLECTIVE: {"Chief": 1, "Worker": 1}, SERVERS: {"Chief": 1, "Worker": 2, "PS": 1}}
"""MultiWorkerMirroredStrategy and ParameterServerStrategy."""
TASKS = (
    (COLLECTIVE, "chief-0"),
    (COLLECTIVE, "worker-0"),
    (SERVERS, "chief-0"),
    (SERVERS, "worker-1"),
    (SERVERS, "ps-0"),
)
"""Who may be struck: one of each kind."""


def documents(
    shape: str, folder: Path, *options: str, memory: str = "", port: int = 2222, run_policy: Object | None = None
) -> list[Object]:
    """A job of one of the shapes, which keeps its journal in `folder`, and the claim for its checkpoints."""
    (folder / "asked").mkdir(parents=True, exist_ok=True)
    at_once = SHAPES[shape]["Worker"] if shape == SERVERS else 1  # who take steps of their own
    command = ["python", str(PROGRAM), str(folder), "--steps", str(STEPS), "--pace", str(PACE * at_once)]
    container = {
        "name": "tensorflow",
        "image": "registry.example.com/training:1",
        "command": [*command, "--checkpoint-every", str(CHECKPOINT_EVERY), *options],
        "volumeMounts": [
            {"name": "tfjob-data", "mountPath": "/tfjob-data"},
            {"name": "journal", "mountPath": str(folder)},
        ],
        "ports": [{"name": "tfjob-port", "containerPort": port}],
        **({"resources": {"limits": {"memory": memory}}} if memory else {}),
    }
    volumes = [
        {"name": "tfjob-data", "persistentVolumeClaim": {"claimName": CLAIM}},
        {"name": "journal", "hostPath": {"path": str(folder)}},
    ]

    def replicas(count: int) -> Object:
        spec = {"terminationGracePeriodSeconds": 2, "containers": [container], "volumes": volumes}
        return deepcopy({"replicas": count, "restartPolicy": "ExitCode", "template": {"spec": spec}})

    specs = {kind: replicas(count) for kind, count in SHAPES[shape].items()}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": JOB},
        "spec": {"runPolicy": {"backoffLimit": 3, **(run_policy or {})}, "tfReplicaSpecs": specs},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    return [job, claim]


class Place(Protocol):
    """Where a training runs."""

    run: Running

    def process(self, task: str) -> int:
        """The process of a task, as this machine numbers it."""

    def status(self) -> Object:
        """The status of the job."""

    def shown(self) -> str:
        """What `tfjob status` says about the job."""


class Fire:
    """A training under fire: when to strike, and what it came to."""

    def __init__(self, place: Place, folder: Path, chance: random.Random) -> None:
        self.place = place
        self.folder = folder
        self.chance = chance
        self.incidents = 0
        self.since = time.monotonic()

    def steps(self) -> list[int]:
        """The steps whose updates arrived, in their order."""
        journal = self.folder / "steps"
        return [int(line) for line in journal.read_text().splitlines()] if journal.exists() else []

    def strike(self, incident: Incident, task: str) -> None:
        """Lets something happen to a task at a random moment after the first checkpoint, well before the end."""
        step = self.chance.randrange(CHECKPOINT_EVERY + 1, STEPS - 3 * CHECKPOINT_EVERY)
        held = self.folder / "held"
        held.touch()  # however slow this test is, the training waits for it
        self.wait_for_step(step)
        time.sleep(self.chance.uniform(0, PACE))
        print(f"{task} {incident.name} after step {step}")
        self.incidents += 1
        self.since = time.monotonic()
        incident.happen(self, task)
        held.unlink()

    def wait_for_step(self, step: int) -> None:
        """Waits until a step is done."""
        wait_until(
            lambda: max(self.steps(), default=0) >= step or self.place.run.process.poll() is not None,
            PATIENCE,
            lambda: f"step {step} is not done:\n" + "\n".join(self.place.run.lines),
        )
        assert max(self.steps(), default=0) >= step, "\n".join(self.place.run.lines)

    def finish(self) -> Object:
        """Waits for a good end, with every step taken and none repeated needlessly; the status."""
        code = self.place.run.finish(PATIENCE)
        lines = self.place.run.lines
        assert code == 0, "\n".join([*lines, self.place.shown()])
        done = Counter(self.steps())
        repeated = sum(done.values()) - STEPS
        status = self.place.status()
        print(
            f"{status['state']}, {status.get('restarts', 0)} restarts, {repeated} steps repeated, "
            f"the end after {self.age()}"
        )
        assert sorted(done) == list(range(1, STEPS + 1))
        assert repeated <= MOST_REPEATED * self.incidents
        assert any(f"done: {STEPS} steps, " in line for line in lines), "\n".join(lines)
        return status

    def fail(self) -> Object:
        """Waits for a bad end; its verdict, which `tfjob status` must tell too."""
        code = self.place.run.finish(PATIENCE)
        assert code == 1, "\n".join(self.place.run.lines)
        status = self.place.status()
        shown = self.place.shown()
        print(f"after {self.age()} `tfjob status` says:\n{shown}")
        assert status["state"] == "Failed"
        assert ["why", status["failure"]["replica"]] in [line.split()[:2] for line in shown.splitlines()], shown
        failure: Object = {"jobReason": status["reason"], **status["failure"]}
        return failure

    def exceed_deadline(self, seconds: float) -> Object:
        """Wait until a job has reached its `activeDeadlineSeconds`, which is no replica's fault; return the status."""
        assert self.place.run.finish(2 * seconds) == 1, "\n".join(self.place.run.lines)
        status, shown = self.place.status(), self.place.shown()
        print(f"after {self.age()} `tfjob status` says:\n{shown}")
        assert (status["state"], status["reason"]) == ("Failed", "DeadlineExceeded")
        assert status["failure"].get("replica", "") == ""
        assert "DeadlineExceeded" in shown
        return status

    def age(self) -> str:
        """The time since the last incident, or since the start."""
        return f"{time.monotonic() - self.since:.0f} s"

    def updates(self) -> int:
        """How many updates are in the result."""
        (line,) = [line for line in self.place.run.lines if "chief-0" in line and f"done: {STEPS} steps, " in line]
        return int(line.split()[-2])


@dataclass(frozen=True)
class Incident:
    """What happens to a task."""

    name: str
    happen: Callable[[Fire, str], None]
    exit_code: int | None = None
    """What the task ends with; None if it goes on."""
    reason: str = ""

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


def signalled(name: str, number: signal.Signals) -> Incident:
    """A task gets a signal that ends it."""
    return Incident(name, lambda fire, task: os.kill(fire.place.process(task), number), 128 + number)


def paused(name: str, seconds: float) -> Incident:
    """A task does nothing for a while."""

    def happen(fire: Fire, task: str) -> None:
        process = fire.place.process(task)
        os.kill(process, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(process, signal.SIGCONT)

    return Incident(name, happen)


def stopped(fire: Fire, task: str) -> None:
    """A task does nothing any more."""
    os.kill(fire.place.process(task), signal.SIGSTOP)


def hungry(name: str, word: str) -> Incident:
    """The program of a task takes more memory than it may have."""

    def happen(fire: Fire, task: str) -> None:
        (fire.folder / "asked" / task).write_text(word)

    return Incident(name, happen, 137, "OOMKilled")


KILLED = signalled("gets SIGKILL", signal.SIGKILL)
TERMINATED = signalled("gets SIGTERM", signal.SIGTERM)
OUT_OF_MEMORY = hungry("takes too much memory once", "hog once")
TOO_HUNGRY = hungry("takes too much memory each time", "hog")
PAUSED = paused("is paused for 3 s", 3)
FROZEN = Incident("is stopped for good", stopped)
