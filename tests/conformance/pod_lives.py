"""Every pod of a namespace from its first moment to its last, as the API server told it while the cases ran.

It is kept by kubectl and not by our own client: what is to be proven must not depend on what is proven.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from devcluster.client import Client

JOB, TYPE, INDEX = (f"training.kubeflow.org/{name}" for name in ("job-name", "replica-type", "replica-index"))
ATTEMPT = "tfjob/attempt"


@dataclass
class Life:
    """One pod: its task (`worker-0`), the attempt that it was made for, and the runs of its main container by the
    number of restarts before them."""

    job: str
    task: str
    attempt: int
    phase: str = ""
    deleted: datetime | None = None
    runs: dict[int, Run] = field(default_factory=dict)

    @property
    def restarts_in_place(self) -> int:
        """How often the kubelet started the container again."""
        return max(self.runs, default=0)

    def spans(self) -> list[tuple[datetime, datetime]]:
        """When the container ran, from and to."""
        gone = self.deleted or datetime.max.replace(tzinfo=UTC)
        return [(run.started, run.finished or gone) for run in self.runs.values()]


@dataclass
class Run:
    """One process of a container; without an end it ran until its pod was gone."""

    started: datetime
    finished: datetime | None = None


class PodHistory:
    """What a watch told, pod by pod."""

    def __init__(self) -> None:
        self.lives: dict[str, Life] = {}
        self._lock = threading.Lock()

    def add(self, event: dict[str, Any]) -> None:
        """Takes one event of the watch."""
        pod = event["object"]
        metadata, status = pod["metadata"], pod.get("status") or {}
        labels = metadata.get("labels") or {}
        if JOB not in labels:
            return
        with self._lock:
            task = f"{labels[TYPE]}-{labels[INDEX]}"
            attempt = int(metadata["annotations"][ATTEMPT])
            life = self.lives.setdefault(metadata["uid"], Life(labels[JOB], task, attempt))
            life.phase = status.get("phase", "")
            if event["type"] == "DELETED":
                life.deleted = datetime.now(UTC)
            main = next((one for one in status.get("containerStatuses") or () if one["name"] == "tensorflow"), None)
            if main:
                _note(life, main.get("lastState") or {}, main["restartCount"] - 1)
                _note(life, main.get("state") or {}, main["restartCount"])

    def of(self, job: str) -> dict[str, list[Life]]:
        """The pods of a job by task, in the order in which they appeared."""
        found: dict[str, list[Life]] = {}
        with self._lock:
            for life in self.lives.values():
                if life.job == job:
                    found.setdefault(life.task, []).append(life)
        return found

    def attempts(self, job: str) -> dict[str, list[int]]:
        """Which attempts of each task of a job there were: its pods, and their restarts in place."""
        return {
            task: [life.attempt + restart for life in lives for restart in range(life.restarts_in_place + 1)]
            for task, lives in self.of(job).items()
        }

    def present(self, job: str) -> dict[str, str]:
        """The pods that a job has now, and their phases."""
        lives = [life for pods in self.of(job).values() for life in pods]
        return {life.task: life.phase for life in lives if life.deleted is None}

    def overlaps(self, job: str) -> list[str]:
        """The tasks of a job that ran twice at a time; the API server tells times in whole seconds."""
        return [
            task
            for task, lives in self.of(job).items()
            for before, after in pairwise(sorted(span for life in lives for span in life.spans()))
            if after[0] < before[1]
        ]


def _note(life: Life, state: dict[str, Any], restarts: int) -> None:
    """What one state of a container says of the run after so many restarts."""
    for kind in ("running", "terminated"):
        told = state.get(kind) or {}
        if told.get("startedAt"):
            run = life.runs.setdefault(restarts, Run(_time(told["startedAt"])))
            if told.get("finishedAt"):
                run.finished = _time(told["finishedAt"])


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


@contextmanager
def watched(client: Client, namespace: str) -> Iterator[PodHistory]:
    """A history that is kept as long as this lasts."""
    history = PodHistory()
    words = ("get", "pods", "-n", namespace, "--watch", "--output-watch-events", "-o", "json")
    process = subprocess.Popen(
        [str(client.programs / "kubectl"), *words], env=client.environment(), stdout=subprocess.PIPE, text=True
    )
    reader = threading.Thread(target=_read, args=(process, history), daemon=True)
    reader.start()
    try:
        yield history
    finally:
        process.terminate()
        reader.join(10)
        process.wait(10)


def _read(process: subprocess.Popen[str], history: PodHistory) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            history.add(json.loads(line))
