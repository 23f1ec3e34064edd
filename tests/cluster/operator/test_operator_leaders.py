"""Two operators and one lease on a real API server: hand-over, take-over, and a leader that comes back too late.

`pytest tests/cluster/operator/test_operator_leaders.py --long --scale 1 --seed N` has ten leaders of each kind fall
silent.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM
from typing import Any

import pytest

from devcluster.client import Client
from support.audit import accepted_too_late, writes_by
from support.faulty_door import Door, faulty_door
from support.long_form import Scaled
from support.operating import LEADS, LOST, READY, WAITS, Lengths, OperatorProcess, known_as, operating
from support.pod_history import PodHistory, pod_history
from support.room import Room, job, room
from support.running import wait_until
from support.served import serve_tfjobs
from support.standin_kubelet import Kubelet, assert_every_pod_is_recorded, end_due, kubelet
from tfjob.api.resources import LEASES

Object = dict[str, Any]
LEASE_SECONDS, RETRY_SECONDS = 15, 2
LONG_LEASE = {"lease": 90.0, "lease_renewal": 60.0, "lease_release": 30.0}
"""Seconds: so long that a lease that was released is taken much sooner than one that runs out, on any machine."""
BUSY_SECONDS = 0.3
"""How long a leader may work for new jobs before it falls silent."""
SLOW = 30
"""Seconds that a machine that does much else may take on top."""
PAUSED, CUT_OFF, VANISHED, KILLED = "paused", "cut off", "in a black hole", "killed"
UNHEARD = (CUT_OFF, VANISHED)
"""Those who live on and cannot reach the API server: connections break and are refused, or packets vanish."""
SHAPES: tuple[tuple[Object, str, str], ...] = (
    ({"chief": 1, "ps": 1, "worker": 1}, "worker-0", "is killed"),
    ({"chief": 1, "worker": 1}, "chief-0", "is deleted"),
    ({"worker": 1}, "worker-0", "fails"),
)
"""Jobs, and what happens to one of their tasks while nobody leads."""
STOPPED_WRITER = Path(__file__).parents[2] / "support" / "stopped_writer.py"
DEADLINE_SECONDS = 10.0
"""Without a renewal, until a leader may not write any more."""
SILENT, LED = 1, 2
"""The hours of a round, by which the kubelet goes: there is no leader; there is one again."""

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]


@dataclass
class Operator:
    """One of a pair, the name by which the audit log knows it, and the door that it may have to go through."""

    name: str
    process: OperatorProcess
    door: Door | None

    def fall_silent(self, fault: str) -> None:
        """It does not renew its lease from now on."""
        if fault == PAUSED:
            self.process.signal(SIGSTOP)
        elif fault == KILLED:
            self.process.end(SIGKILL)
        elif self.door is not None and fault == CUT_OFF:
            self.door.close()
        elif self.door is not None:
            self.door.vanish()

    def come_back(self) -> None:
        """What kept it from working is gone, if it still lives."""
        if self.door is not None:
            self.door.reopen()
        if self.process.process.poll() is None:
            self.process.signal(SIGCONT)


@dataclass
class Pair:
    """Operators of one namespace, of which the first leads and the second waits."""

    cluster: Client
    place: Room
    folder: Path
    stack: ExitStack
    has_doors: bool
    durations: Lengths | None = None
    started: list[Operator] = field(default_factory=list)

    @property
    def first(self) -> OperatorProcess:
        """The one that has led for longest."""
        return self.started[-2].process

    @property
    def second(self) -> OperatorProcess:
        """The one that came last."""
        return self.started[-1].process

    @property
    def holder(self) -> str:
        """Who leads, as the lease says."""
        return str(self.place.get(LEASES, "tf-operator")["spec"]["holderIdentity"])

    def start(self) -> None:
        """One more operator; nobody waits for it."""
        namespace = self.place.namespace
        name = f"{namespace}-{len(self.started)}"
        folder = self.folder / name
        folder.mkdir()
        real = self.cluster.kubeconfig
        door = self.stack.enter_context(faulty_door(real, folder)) if self.has_doors else None
        words = (f"--namespace={namespace}", "--leader-elect", f"--lease-namespace={namespace}")
        known = known_as(name, door.kubeconfig if door else real, folder)
        process = operating(known, *words, wait="", durations=self.durations)
        self.started.append(Operator(name, self.stack.enter_context(process), door))

    def add_standby(self) -> None:
        """Another operator comes when the one that is there leads."""
        self.second.wait_for(READY)
        self.start()


@contextmanager
def pair(cluster: Client, folder: Path, *, has_doors: bool = False, durations: Lengths | None = None) -> Iterator[Pair]:
    """A namespace of its own with its first operator; the standby is to be added."""
    serve_tfjobs(cluster)
    namespace = cluster.namespace()
    with ExitStack() as stack:
        stack.callback(cluster.delete_namespace, namespace)
        place = stack.enter_context(room(cluster.kubeconfig, namespace))
        two = Pair(cluster, place, folder, stack, has_doors, durations)
        two.start()
        yield two


def moment(operator: OperatorProcess, text: str) -> float:
    """When an operator said something, by the clock."""
    found = next(line for line in operator.log if text in line["msg"])
    return datetime.fromisoformat(found["ts"]).timestamp()


def leading(operator: OperatorProcess) -> float:
    """What its metrics say."""
    return operator.total("leader_election_master_status", name="tf-operator")


def test_one_leads_and_the_other_takes_over_at_once_on_sigterm(control_plane: Client, tmp_path: Path) -> None:
    with pair(control_plane, tmp_path, durations=LONG_LEASE) as two:
        two.add_standby()
        two.second.wait_for(WAITS)
        first, second, place = two.first, two.second, two.place
        wait_until(lambda: second.ask("/readyz")[0] == 200, 60)
        assert (leading(first), leading(second)) == (1, 0)
        place.create(job("before", worker=1))
        place.all_run("before", "worker-0")
        uids, led_by = place.uids("before"), two.holder

        asked = time.time()
        assert first.end(SIGTERM) == 0
        ended = time.time()
        second.wait_for(READY)
        assert leading(second) == 1
        # A lease that was not released could not be taken before it had run out.
        assert moment(second, LEADS) - asked < LONG_LEASE["lease"] / 2
        assert ended - asked < SLOW
        assert two.holder != led_by
        assert leading(second) == 1
        place.ends("before-worker-0")
        place.until("before", "Succeeded")
        assert place.uids("before") == uids


def test_a_leader_that_was_stopped_between_its_fence_and_a_request_does_not_send_it(
    control_plane: Client, quiet_room: Room
) -> None:
    place = quiet_room.namespace
    words = (f"--namespace={place}", "--leader-elect", f"--lease-namespace={place}")
    with operating(control_plane.kubeconfig, *words, program=[str(STOPPED_WRITER)]) as operator:
        quiet_room.create(job("late", worker=1))
        stat = Path(f"/proc/{operator.process.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", 60)
        time.sleep(DEADLINE_SECONDS + 1)
        operator.signal(SIGCONT)
        assert operator.finish() == 1
        assert operator.said(LOST)
        assert quiet_room.status("late") == {}
        assert quiet_room.pods("late") == {}


@dataclass
class Trial:
    """A pair whose leader falls silent in one way, with work under way, and what its jobs come to."""

    fault: str
    two: Pair
    node: Kubelet
    history: PodHistory
    fates: dict[str, str] = field(default_factory=dict)
    since: float = 0.0
    seconds: list[float] = field(default_factory=list)
    """How long nobody led, each time."""
    undelivered: int = 0
    """What a kernel still tries to deliver for the first when the other one leads."""

    def give_work(self, jobs: int) -> None:
        """New jobs; some of their pods are there when it returns, and some perhaps not yet."""
        self.node.hour = 0
        self.fates.clear()
        names = [f"job-{len(self.two.started)}-{number}" for number in range(jobs)]
        for number, name in enumerate(names):
            replicas, task, self.fates[name] = SHAPES[number % len(SHAPES)]
            self.node.expect(name, replicas, task, self.fates[name], (SILENT, LED))
            self.two.place.create(job(name, policy="ExitCode", **replicas))
        wait_until(lambda: bool(self.two.place.pods(names[0])), 60)

    def silence(self) -> None:
        """The leader falls silent, and things happen to its jobs."""
        self.since = time.time()
        self.two.started[-2].fall_silent(self.fault)
        self.node.hour = SILENT

    def await_take_over(self) -> None:
        """The other one leads in time; at once the first comes back."""
        two = self.two
        two.second.wait_for(LEADS)
        door = two.started[-2].door
        self.undelivered = door.undelivered() if door else 0
        two.started[-2].come_back()
        self.node.hour = LED
        self.seconds.append(moment(two.second, LEADS) - self.since)
        assert self.seconds[-1] < LEASE_SECONDS + RETRY_SECONDS + SLOW, self.fault

    def check(self) -> None:
        """Every job ends as it should, and the first has ended without another write."""
        two, fault = self.two, self.fault
        for name, fate in self.fates.items():
            two.place.until(name, **end_due(fate))
            assert_every_pod_is_recorded(two.place, self.history, name)
        assert two.first.finish() == (-SIGKILL if fault == KILLED else 1), fault
        assert two.first.said(LOST) == (fault != KILLED)
        if fault in UNHEARD:
            assert moment(two.first, LOST) < moment(two.second, LEADS), "two at a time believed that they lead"
        assert two.second.process.poll() is None
        if fault == VANISHED:
            assert self.undelivered == 0, "the kernel goes on with what an operator that has ended wanted to write"
        if two.cluster.folder is None:
            return
        old, new = (one.name for one in two.started[-2:])
        writes = list(two.cluster.writes())
        assert {"leases", "pods", "tfjobs"} <= {one["objectRef"]["resource"] for one in writes_by(old, writes)}
        late = [f"{one['verb']} {one['requestURI']}" for one in accepted_too_late(old, new, writes)]
        assert not late, f"{fault}: {late}"


@contextmanager
def trial(fault: str, cluster: Client, folder: Path) -> Iterator[Trial]:
    """A pair of its own with a kubelet, and a record of its pods."""
    folder.mkdir()
    with ExitStack() as stack:
        two = stack.enter_context(pair(cluster, folder, has_doors=fault in UNHEARD))
        history = stack.enter_context(pod_history(cluster, two.place.namespace))
        node = stack.enter_context(kubelet(cluster.kubeconfig, two.place.namespace))
        yield Trial(fault, two, node, history)


@pytest.mark.parametrize("form", ["short", pytest.param("long", marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
def test_a_leader_that_falls_silent_is_replaced_and_writes_nothing_after_the_take_over(
    control_plane: Client, tmp_path: Path, seed: int, scaled: Scaled, form: str
) -> None:
    """Killed, paused beyond its lease, cut off from the API server by broken connections or by a black hole.

    Jobs are under way meanwhile and lose a replica then.
    """
    rounds, jobs = (1, 3) if form == "short" else (scaled(10), 12)
    chance = random.Random(seed)
    with ExitStack() as stack:
        # The one that is paused comes first: it is to wake up in the very moment of the take-over.
        trials = [
            stack.enter_context(trial(fault, control_plane, tmp_path / fault.replace(" ", "-")))
            for fault in (PAUSED, CUT_OFF, VANISHED, KILLED)
        ]
        for _ in range(rounds):
            for one in trials:
                one.two.add_standby()
            for one in trials:
                one.two.second.wait_for(WAITS)
                one.give_work(jobs)
                time.sleep(chance.uniform(0, BUSY_SECONDS))
                one.silence()
            for one in trials:
                one.await_take_over()
            for one in trials:
                one.check()
        for one in trials:
            told = ", ".join(f"{seconds:.1f}" for seconds in one.seconds)
            print(f"{one.fault}: another led after {told} s; {len(one.history.lives)} pods, none doubled, none lost")
