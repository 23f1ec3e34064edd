"""An API server that misbehaves in every way that is known: jobs end as they would have, and it is not flooded."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from devcluster.client import Client
from support.faulty_door import standing
from support.long_form import Scaled
from support.misbehaving_server import HALF_OPEN, KINDS, SILENT, MisbehavingServer
from support.operating import Lengths, OperatorProcess, operating
from support.pod_history import PodHistory, pod_history
from support.room import Room, job, room
from support.running import wait_until
from support.served import serve_tfjobs
from support.standin_kubelet import Kubelet, assert_every_pod_is_recorded, kubelet
from tfjob.durations import USUAL

pytestmark = pytest.mark.faults

Object = dict[str, Any]
NO_GRACE = {"evaluatorGraceSeconds": 0}
"""The evaluators of these jobs never exit."""
SHAPES: tuple[tuple[Object, str, str], ...] = (
    ({"chief": 1, "ps": 1, "worker": 2}, "worker-1", "is killed"),
    ({"chief": 1, "worker": 2}, "chief-0", "is killed"),
    ({"chief": 1, "ps": 1}, "chief-0", "fails"),
    ({"chief": 1, "worker": 1, "evaluator": 1}, "worker-0", "is deleted"),
    ({"worker": 1}, "worker-0", "fails"),
    ({"chief": 1, "ps": 2}, "ps-1", "is deleted"),
    ({"worker": 1}, "worker-0", "is killed"),
)
"""Jobs, and what happens to one of their tasks on its first attempt."""
ENDED = ("Succeeded", "Failed")
KEPT = ("state", "reason", "message", "restarts", "attempt", "taskRestarts", "completedIndexes", "failure")
"""What a status says of a job that has ended, but for times and for what somebody happened to see on the way."""
PER_WATCH, IDLE = 5.0, 1.0
"""Requests a second that are allowed: for one kind of object while there are faults, and in all when there is peace."""
BURST, TOTAL = 10, 100.0
"""Requests that may come for one kind beside its rate, since a fault begins with quick tries; and a second, in all."""
SLACK_SECONDS = 12.0
"""What a busy machine and the delay after a failure may add to the time in which a dead connection is noticed."""


IDLE_SECONDS = 16.0
"""Far longer than a dead connection is there: what notices that must be the kernel."""
DEAD_SECONDS, REQUEST_SECONDS = 2.0, 3.0


@dataclass(frozen=True)
class Form:
    """How long it is tried, and with which clocks."""

    jobs: int
    rounds: int
    """Each is a spell of every kind of fault."""
    spell_seconds: float
    peace_seconds: float
    durations: Lengths | None
    bookmark_seconds: float
    silent_seconds: float
    dead_seconds: float
    slack_seconds: float = SLACK_SECONDS


SHORT = Form(
    jobs=10,
    rounds=1,
    spell_seconds=1.2,
    peace_seconds=4,
    durations={
        "watch_idle": IDLE_SECONDS,
        "dead_connection": DEAD_SECONDS,
        "request": REQUEST_SECONDS,
        "longest_watch_delay": REQUEST_SECONDS,
    },
    bookmark_seconds=1.0,  # as often as a server must give a sign of life then
    silent_seconds=IDLE_SECONDS,
    dead_seconds=DEAD_SECONDS,
    slack_seconds=10,  # less than the time after which a silent watch would be left
)
LONG = Form(
    jobs=50,
    rounds=2,
    spell_seconds=12,
    peace_seconds=60,
    durations=None,
    bookmark_seconds=0,
    silent_seconds=USUAL.watch_idle.total_seconds(),
    dead_seconds=USUAL.dead_connection.total_seconds(),
)


@dataclass
class Side:
    """A namespace in which the jobs run: once in peace, once in the storm."""

    place: Room
    node: Kubelet
    history: PodHistory
    operator: OperatorProcess

    def add(self, number: int) -> None:
        """One more job."""
        replicas, task, fate = SHAPES[number % len(SHAPES)]
        self.node.expect(named(number), replicas, task, fate)
        self.place.create(job(named(number), policy="ExitCode", run_policy=NO_GRACE, **replicas))

    def end_of(self, number: int, patience: float) -> Object:
        """What is said of a job that has ended."""
        status = self.place.until_status(named(number), lambda status: status.get("state") in ENDED, patience)
        status.get("failure", {}).pop("time", None)
        return {key: status.get(key) for key in KEPT}


def named(number: int) -> str:
    return f"storm-{number}"


@contextmanager
def side(cluster: Client, kubeconfig: Path, durations: Lengths | None = None) -> Iterator[Side]:
    """A namespace of its own with all that its jobs need."""
    namespace = cluster.namespace()
    with ExitStack() as stack:
        stack.callback(cluster.delete_namespace, namespace)
        place = stack.enter_context(room(cluster.kubeconfig, namespace))
        history = stack.enter_context(pod_history(cluster, namespace))
        node = stack.enter_context(kubelet(cluster.kubeconfig, namespace))
        operator = stack.enter_context(operating(kubeconfig, f"--namespace={namespace}", durations=durations))
        yield Side(place, node, history, operator)


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(SHORT, id="short", marks=pytest.mark.timeout(300)),
        pytest.param(LONG, id="long", marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
    ],
)
def test_jobs_end_as_they_would_have_though_the_server_misbehaves(
    control_plane: Client, tmp_path: Path, seed: int, scaled: Scaled, form: Form
) -> None:
    """Also no pod is doubled, dead connections are noticed, and the server is asked no more often than is decent."""
    serve_tfjobs(control_plane)
    if form is LONG:
        form = replace(form, jobs=scaled(form.jobs), rounds=scaled(form.rounds))
    chance = random.Random(seed)
    spells = [spell for _ in range(form.rounds) for spell in chance.sample(KINDS, len(KINDS))]
    server = MisbehavingServer(tmp_path / "door.kubeconfig", chance, form.bookmark_seconds)
    with (
        standing(server, control_plane.kubeconfig),
        side(control_plane, control_plane.kubeconfig) as peace,
        side(control_plane, server.kubeconfig, form.durations) as storm,
    ):
        begun, patience = time.monotonic(), 90 + form.silent_seconds
        numbers, hottest = iter(range(form.jobs)), (-inf, "", "")
        for count, spell in enumerate(spells, 1):
            for number in numbers:
                peace.add(number)
                storm.add(number)
                if (number + 1) * len(spells) >= form.jobs * count:
                    break
            hottest = max(hottest, reign(server, spell, form.spell_seconds, patience))
        server.calm()

        for number in range(form.jobs):
            assert storm.end_of(number, patience) == peace.end_of(number, patience), named(number)
        wait_until(lambda: not server.dead, patience, lambda: f"not noticed: {server.dead}")
        took = time.monotonic() - begun
        assert storm.operator.ask("/healthz") == (200, "ok")
        idle = peaceful_rate(server, form.peace_seconds)
        for number in range(form.jobs):
            assert_every_pod_is_recorded(storm.place, storm.history, named(number))

    slowest = dict[str, float]()
    for kind, _, seconds in server.noticed:
        slowest[kind] = max(slowest.get(kind, 0.0), seconds)
    rate, path = server.peak()
    print(f"{form.jobs} jobs, {took:.0f} s; faults: {dict(server.injected)}")
    print(f"noticed after at most: {dict(slowest)}; peak {rate} requests/s for {path}; idle {idle:.2f} requests/s")
    print(f"peak of all {server.total_peak()} requests/s; hottest spell: {hottest}")
    assert all(server.injected[kind] for kind in KINDS)
    assert set(slowest) == {SILENT, HALF_OPEN}
    assert slowest[SILENT] <= form.silent_seconds + SLACK_SECONDS
    assert slowest[HALF_OPEN] <= form.dead_seconds + form.slack_seconds
    assert rate <= PER_WATCH, path
    assert hottest[0] <= BURST, hottest
    assert server.total_peak() <= TOTAL
    assert idle <= IDLE


def reign(server: MisbehavingServer, spell: str, seconds: float, patience: float) -> tuple[float, str, str]:
    """A spell: for its time, and until it was felt; an operator that sees nothing happen writes nothing.

    Returns how many requests beyond its rate came for one kind of object, which one, and the spell.
    """
    before, begun = server.injected[spell], time.monotonic()
    server.begin(spell)
    time.sleep(seconds)
    wait_until(lambda: server.injected[spell] > before, patience, lambda: f"no {spell}")
    ended = time.monotonic()
    count, path = server.most_asked(begun, ended)
    return count - PER_WATCH * (ended - begun), path, spell


def peaceful_rate(server: MisbehavingServer, seconds: float) -> float:
    """Requests a second when nothing happens, after what is still under way has come to its end."""
    asked = -1

    def is_quiet() -> bool:
        nonlocal asked
        before, asked = asked, len(server.asked)
        time.sleep(2)
        return asked - before <= 2

    wait_until(is_quiet, 60)
    # An operator with fast clocks that a busy machine holds up lists everything anew; the least counts.
    rates: list[float] = []
    while not rates or (min(rates) > IDLE and len(rates) < 5):
        moment = time.monotonic()
        time.sleep(seconds)
        rates.append(len(server.asked_since(moment)) / seconds)
    return min(rates)
