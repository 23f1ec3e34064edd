"""How soon a user sees in a job what happened to one of its pods, measured with kubectl's own watch.

Nothing that comes round by itself can help: there is no resync, and what the operator does look at from time to time
it looks at far more seldom than the status has to follow.
"""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import pytest

from devcluster.client import Client
from support.operating import operated_room
from support.room import PATIENCE, Room
from support.room import job as v1_job
from support.running import wait_until
from support.served import serve_every_job
from support.tf_jobs import pods, replica, tf_job
from tfjob.api.dialect import TF_JOBS
from tfjob.api.resources import Resource
from tfjob.api.types import TFJOBS
from tfjob.durations import USUAL

Object = dict[str, Any]
SECONDS = 1.0
WORKERS = 4
Counts = tuple[int, int]
"""How many replicas run, and how many have succeeded."""


@pytest.fixture(scope="module")
def watched(own_cluster: Client) -> Iterator[Room]:
    """A room of a cluster with both kinds of jobs, and an operator."""
    serve_every_job(own_cluster)
    with operated_room(own_cluster) as found:
        yield found


def test_a_tf_job_of_kubeflow_org_shows_within_a_second_what_became_of_a_pod(
    watched: Room, own_cluster: Client
) -> None:
    def counts(status: Object) -> Counts:
        replicas = status.get("replicaStatuses", {}).values()
        return sum(one.get("active", 0) for one in replicas), sum(one.get("succeeded", 0) for one in replicas)

    tasks = [*(f"worker-{index}" for index in range(WORKERS)), "chief-0"]
    watched.create(v1_job("prompt", chief=1, worker=WORKERS))
    watched.until_pods("prompt", *tasks)
    assert_prompt(watched, own_cluster, TFJOBS, [f"prompt-{task}" for task in tasks], counts)


def test_a_tf_job_of_tensorflow_org_shows_within_a_second_what_became_of_a_pod(
    watched: Room, own_cluster: Client
) -> None:
    def counts(status: Object) -> Counts:
        states = [one["ReplicasStates"] for one in status.get("replicaStatuses") or ()]
        return sum(one.get("Running", 0) for one in states), sum(one.get("Succeeded", 0) for one in states)

    tasks = [*(f"worker-{index}" for index in range(WORKERS)), "master-0"]
    watched.make(TF_JOBS, tf_job("prompt", replica("MASTER"), replica("WORKER", WORKERS)))
    wait_until(lambda: set(pods(watched, "prompt")) == set(tasks), PATIENCE, lambda: str(pods(watched, "prompt")))
    names = {task: pod["metadata"]["name"] for task, pod in pods(watched, "prompt").items()}
    assert_prompt(watched, own_cluster, TF_JOBS, [names[task] for task in tasks], counts)


def assert_prompt(
    team: Room, client: Client, resource: Resource, names: list[str], counts: Callable[[Object], Counts]
) -> None:
    """Let the pods of the job `prompt` run one by one, then end; most of either must be seen in time.

    Most of them, so that one slow moment of a busy machine is not a failure. A busy machine also takes longer to show
    a change of the job itself, which does not need the operator; the limit grows with that. The last pod decides.
    """
    assert USUAL.sweep.total_seconds() >= 10 * SECONDS
    changes: list[tuple[Callable[[str], None], str, Counts]] = [
        *((team.runs, name, (before + 1, 0)) for before, name in enumerate(names)),
        *((team.ends, name, (len(names) - 1 - before, before + 1)) for before, name in enumerate(names)),
    ]
    delays, trips = [], []
    with statuses(client, team.namespace, resource) as seen:
        for change, name, wanted in changes:
            trips.append(round_trip(team, resource, seen))
            begun = time.monotonic()
            change(name)
            delays.append(shown_at(seen, lambda status, wanted=wanted: counts(status) == wanted) - begun)  # type: ignore[misc]
    for what, some in (("starts", delays[: len(names)]), ("ends", delays[len(names) :])):
        print(f"{resource.kind}, {what}: {' '.join(f'{one:.2f}' for one in some)} s, median {median(some):.2f} s")
        assert median(some) < SECONDS + 5 * median(trips)


Seen = queue.Queue[tuple[float, Object]]
"""The statuses that a watch showed, each with its moment."""


def round_trip(team: Room, resource: Resource, seen: Seen) -> float:
    """Return the seconds until a change of the job `prompt` that the operator ignores is shown."""
    while not seen.empty():
        seen.get()
    begun = time.monotonic()
    team.patch(resource, "prompt", {"metadata": {"annotations": {"example.com/changed": str(begun)}}})
    return shown_at(seen, lambda _: True) - begun


def shown_at(seen: Seen, holds: Callable[[Object], bool]) -> float:
    """The moment in which a status was shown for which something holds."""
    last: Object = {}
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            at, last = seen.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise AssertionError(f"never shown, last of all {last}") from None
        if holds(last):
            return at


@contextmanager
def statuses(client: Client, namespace: str, resource: Resource) -> Iterator[Seen]:
    """What kubectl shows of the job `prompt`, from when it shows anything."""
    kind = f"{resource.plural}.{resource.group}"
    words = ("get", kind, "prompt", "-n", namespace, "--watch", "--output-watch-events", "-o", "json")
    watch = subprocess.Popen(
        [str(client.programs / "kubectl"), *words], env=client.environment(), stdout=subprocess.PIPE, text=True
    )
    seen: Seen = queue.Queue()

    def read() -> None:
        assert watch.stdout is not None
        with watch.stdout as lines:
            for line in lines:
                seen.put((time.monotonic(), json.loads(line)["object"].get("status") or {}))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        shown_at(seen, lambda _: True)
        yield seen
    finally:
        watch.kill()
        watch.wait()
        reader.join()
