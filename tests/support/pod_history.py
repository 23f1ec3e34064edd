"""Every pod that a namespace ever had, from its first moment to its last: what a list at the end cannot tell.

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
UNMARKED = 0
"""The attempt of pods that training-operator v1.9 made: it does not number them, and our operator always does."""
FIRST = "history-begins"
"""The pod by which a history knows that it has begun."""


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
        # Jobs alone have pods here: one without these is one that no job would count, and ends the history.
        labels, attempt = metadata["labels"], int((metadata.get("annotations") or {}).get(ATTEMPT, UNMARKED))
        with self._lock:
            life = self.lives.setdefault(metadata["uid"], Life(*_job_and_task(labels), attempt))
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

    def counts(self, job: str) -> dict[str, int]:
        """How many pods each task of a job has had."""
        return {task: len(lives) for task, lives in self.of(job).items()}

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


def _job_and_task(labels: dict[str, str]) -> tuple[str, str]:
    """Whose pod it is, by the labels of kubeflow.org or of tensorflow.org."""
    if JOB in labels:
        return labels[JOB], f"{labels[TYPE]}-{labels[INDEX]}"
    return labels["tf_job_name"], f"{labels['job_type'].lower()}-{labels['task_index']}"


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
def pod_history(cluster: Client, namespace: str) -> Iterator[PodHistory]:
    """Keeps the history of a namespace, in which jobs alone have pods, for the time of a block."""
    words = ("get", "pods", "-n", namespace, "--watch", "--output-watch-events", "-o", "json")
    watch = subprocess.Popen(
        [str(cluster.programs / "kubectl"), *words], env=cluster.environment(), stdout=subprocess.PIPE, text=True
    )
    history, begun = PodHistory(), threading.Event()

    def read() -> None:
        assert watch.stdout is not None
        with watch.stdout as lines:
            for line in lines:
                event = json.loads(line)
                if event["object"]["metadata"]["name"] == FIRST:
                    begun.set()
                else:
                    history.add(event)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        cluster.apply(_first_pod(), namespace=namespace)
        assert begun.wait(60), "the watch tells nothing"
        cluster.kubectl("delete", "pod", FIRST, "-n", namespace, "--now")
        yield history
        assert reader.is_alive(), "the watch ended, so the history has a gap"
    finally:
        watch.kill()
        watch.wait()
        reader.join()


def _first_pod() -> dict[str, Any]:
    # No scheduler has this name, so no node takes the pod, and it is gone as soon as it is deleted.
    spec = {"schedulerName": "nobody", "containers": [{"name": "none", "image": "none"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": FIRST}, "spec": spec}
