"""Two operators and one lease on a real API server: hand-over, take-over, and a leader that comes back too late."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM
from typing import Any

import pytest

from devcluster.client import Client
from operating import READY, OperatorProcess, known_as, operating
from room import Room, job, room
from running import wait_until
from served import serve_tfjobs
from tfjob.kube.resources import LEASES

Object = dict[str, Any]
LEADS, WAITS = "lease acquired", "waiting for the lease"
LEASE_SECONDS, RETRY_SECONDS = 15, 2
SLOW = 10
"""Seconds that a machine that does much else may take on top."""

pytestmark = pytest.mark.timeout(300)


@dataclass
class Pair:
    """Two operators of one namespace, of which the first leads, and what became of it when."""

    place: Room
    first: OperatorProcess
    second: OperatorProcess
    since: float = 0.0

    @property
    def holder(self) -> str:
        """Who leads, as the lease says."""
        return str(self.place.get(LEASES, "tf-operator")["spec"]["holderIdentity"])


@contextmanager
def pair(cluster: Client, folder: Path) -> Iterator[Pair]:
    """A pair in a namespace of its own; the audit log knows them as `NAMESPACE-first` and `NAMESPACE-second`."""
    serve_tfjobs(cluster)
    namespace = cluster.namespace()
    words = (f"--namespace={namespace}", "--leader-elect", f"--lease-namespace={namespace}")
    names = [known_as(f"{namespace}-{order}", cluster.kubeconfig, folder) for order in ("first", "second")]
    with (
        room(cluster.kubeconfig, namespace) as place,
        operating(names[0], *words) as first,
        operating(names[1], *words, wait=WAITS) as second,
    ):
        yield Pair(place, first, second)
    cluster.delete_namespace(namespace)


def moment(operator: OperatorProcess, text: str) -> float:
    """When an operator said something, by the clock."""
    found = next(line for line in operator.log if text in line["msg"])
    return datetime.fromisoformat(found["ts"]).timestamp()


def leading(operator: OperatorProcess) -> float:
    """What its metrics say."""
    return operator.total("leader_election_master_status", name="tf-operator")


def test_one_leads_and_the_other_takes_over_at_once_on_sigterm(control_plane: Client, tmp_path: Path) -> None:
    with pair(control_plane, tmp_path) as two:
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
        assert first.said(f"lease released: {place.namespace}/tf-operator")
        assert second.said(f"{LEADS}: {place.namespace}/tf-operator")
        assert moment(second, LEADS) - asked < 3
        assert ended - asked < 3
        assert two.holder != led_by
        assert leading(second) == 1
        place.ends("before-worker-0")
        place.until("before", "Succeeded")
        assert place.uids("before") == uids


@pytest.fixture(scope="module")
def silenced(control_plane: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pair, Pair]]:
    """Two pairs whose leaders fall silent at the same time: one is killed, one only stopped, with work under way."""
    with ExitStack() as stack:
        killed, asleep = (stack.enter_context(pair(control_plane, tmp_path_factory.mktemp("pair"))) for _ in range(2))
        asleep.place.create(*(job(name, worker=1) for name in NAMES))
        for name in NAMES:
            asleep.place.until_pods(name, "worker-0")
        asleep.first.signal(SIGSTOP)
        killed.first.end(SIGKILL)
        killed.since = asleep.since = time.time()
        yield killed, asleep


NAMES = tuple(f"asleep-{number}" for number in range(5))


def test_a_leader_that_is_killed_is_replaced_within_its_lease(silenced: tuple[Pair, Pair]) -> None:
    two, _ = silenced
    two.place.create(job("orphan", worker=1))
    two.second.wait_for(READY)
    assert moment(two.second, LEADS) - two.since < LEASE_SECONDS + RETRY_SECONDS + SLOW
    two.place.until_pods("orphan", "worker-0")


def test_a_leader_that_slept_past_its_lease_ends_and_writes_nothing_more(
    control_plane: Client, silenced: tuple[Pair, Pair]
) -> None:
    _, two = silenced
    for name in NAMES:
        two.place.runs(f"{name}-worker-0")
    two.second.wait_for(LEADS)
    assert moment(two.second, LEADS) - two.since < LEASE_SECONDS + RETRY_SECONDS + SLOW
    two.first.signal(SIGCONT)  # it finds the pods that began to run meanwhile
    for name in NAMES:
        two.place.ends(f"{name}-worker-0")
        two.place.until(name, "Succeeded")
    assert two.first.finish() == 1
    assert two.first.said("the lease is lost")
    assert two.second.process.poll() is None
    if control_plane.folder is None:
        return
    before, after = (writes_by(control_plane, f"{two.place.namespace}-{order}") for order in ("first", "second"))
    taken = next(write for write in after if write["objectRef"]["resource"] == "leases")
    assert before
    late = [write for write in before if write["requestReceivedTimestamp"] > taken["requestReceivedTimestamp"]]
    assert not [write for write in late if write["responseStatus"]["code"] < 300]


def writes_by(cluster: Client, user: str) -> list[Object]:
    """What one process wrote, as the audit log knows it."""
    return [write for write in cluster.writes() if write.get("impersonatedUser", {}).get("username") == user]
