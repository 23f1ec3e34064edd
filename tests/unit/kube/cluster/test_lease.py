from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web

from support.async_tests import async_test
from support.golden import Wording
from support.kube.api_server import ApiServer, refuse, reply, silence
from tfjob.api.resources import PODS
from tfjob.durations import Durations
from tfjob.kube.access.config import Access
from tfjob.kube.client.client import Client
from tfjob.kube.cluster.lease import Lease, LeaseLost


class Shelf:
    """The part of an API server that keeps one Lease: optimistic locking and nothing else."""

    server: ApiServer
    client: Client

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.writes = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return await (reply(self.lease) if self.lease else refuse(404, "NotFound"))(request)
        body = msgspec.json.decode(await request.read())
        if request.method == "POST" and self.lease:
            return await refuse(409, "AlreadyExists")(request)
        if request.method == "PUT" and (
            not self.lease or body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]
        ):
            return await refuse(409, "Conflict")(request)
        self.store(body)
        self.writes += 1
        return await reply(self.lease)(request)

    def store(self, lease: dict[str, Any]) -> None:
        self.version += 1
        self.lease = {**lease, "metadata": {**lease.get("metadata", {}), "resourceVersion": str(self.version)}}

    def held_by(self, holder: str, renewal: str = "first") -> None:
        self.store({"spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewal}})

    @property
    def holder(self) -> str:
        assert self.lease
        return str(self.lease["spec"]["holderIdentity"])


class Clock:
    """Time that passes only by sleeping; `meanwhile` is called after each sleep."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.meanwhile: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()
        await asyncio.sleep(0)


def lengths(**seconds: float) -> Durations:
    return msgspec.convert(seconds, Durations, strict=False)


@asynccontextmanager
async def candidate(**seconds: float) -> AsyncIterator[tuple[Shelf, Clock, Lease]]:
    shelf, clock = Shelf(), Clock()
    durations = lengths(**{"lease_retry": 2, **seconds})
    async with ApiServer(otherwise=shelf.answer) as server, Client(server.access(), durations=durations) as client:
        shelf.server, shelf.client = server, client
        yield shelf, clock, Lease(client, "team", "leader", "me", clock=clock, sleep=clock.sleep)


@async_test(candidate)
async def test_a_missing_lease_is_created(shelf: Shelf, clock: Clock, lease: Lease) -> None:
    with pytest.raises(LeaseLost, match="not hold"):
        lease.check()
    await lease.acquire()
    lease.check()
    assert shelf.lease is not None
    spec = shelf.lease["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("me", 15, 0)
    assert len(spec["renewTime"]) == len("2026-11-16T03:43:19.000000Z")
    assert shelf.lease["kind"] == "Lease"


@async_test(candidate)
async def test_a_released_lease_is_taken_at_the_next_look(shelf: Shelf, clock: Clock, lease: Lease) -> None:
    shelf.held_by("other")
    clock.meanwhile = lambda: shelf.held_by("")
    await lease.acquire()
    assert clock.now == 1002.0
    assert shelf.holder == "me"


@async_test(candidate)
async def test_a_lease_is_taken_when_it_was_not_renewed_in_time(shelf: Shelf, clock: Clock, lease: Lease) -> None:
    def renew() -> None:
        if clock.now < 1100:
            shelf.held_by("other", renewal=str(clock.now))

    renew()
    clock.meanwhile = renew
    await lease.acquire()
    assert 1113 <= clock.now <= 1116
    assert shelf.lease is not None
    assert shelf.lease["spec"]["leaseTransitions"] == 1


@async_test(candidate)
async def test_another_machines_clock_does_not_count(shelf: Shelf, clock: Clock, lease: Lease) -> None:
    shelf.held_by("other", renewal="1970-01-01T00:00:00.000000Z")
    await lease.acquire()
    assert clock.now == 1015.0


@async_test(candidate)
async def test_the_loser_of_a_race_for_an_abandoned_lease_waits(shelf: Shelf, clock: Clock, lease: Lease) -> None:
    shelf.held_by("dead")

    def raced() -> None:
        if clock.now == 1015:
            shelf.held_by("faster")

    clock.meanwhile = raced
    await lease.acquire()
    assert clock.now == 1030.0


@async_test(candidate)
async def test_the_loser_of_a_race_for_the_first_lease_waits(shelf: Shelf, clock: Clock, lease: Lease) -> None:
    shelf.server.answers += [refuse(404, "NotFound"), refuse(409, "AlreadyExists")]
    shelf.held_by("faster")
    await lease.acquire()
    assert clock.now >= 1015


@async_test(candidate)
async def test_acquiring_continues_after_errors(shelf: Shelf, clock: Clock, lease: Lease) -> None:
    shelf.server.answers += [refuse(403, "Forbidden"), refuse(422, "Invalid")]
    await lease.acquire()
    assert shelf.holder == "me"


async def ended(lease: Lease) -> str:
    with pytest.raises(LeaseLost) as lost:
        await lease.hold()
    with pytest.raises(LeaseLost):
        lease.check()
    assert not lease.held
    return str(lost.value)


@async_test(candidate)
async def test_a_leader_that_cannot_renew_stops(shelf: Shelf, clock: Clock, lease: Lease, *, wording: Wording) -> None:
    await lease.acquire()

    def fail() -> None:
        if clock.now >= 1100:
            shelf.server.otherwise = refuse(422, "Invalid")
        if clock.now < 1108:
            lease.check()

    clock.meanwhile = fail
    reason = await ended(lease)
    assert "team/leader" in reason
    assert "10.0 s" in reason
    wording(reason)
    assert clock.now == 1108.0  # the last renewal was at 1098
    assert shelf.writes == 50


@async_test(candidate)
async def test_a_leader_survives_temporary_failures(
    shelf: Shelf, clock: Clock, lease: Lease, *, wording: Wording
) -> None:
    await lease.acquire()

    def flicker() -> None:
        shelf.server.otherwise = shelf.answer if clock.now % 8 == 0 else refuse(422, "Invalid")
        if clock.now > 1200:
            shelf.server.otherwise = shelf.answer
            shelf.held_by("other")

    clock.meanwhile = flicker
    reason = await ended(lease)
    assert "team/leader" in reason
    assert "other" in reason
    wording(reason)
    assert clock.now > 1200


@async_test(candidate)
async def test_other_edits_of_the_lease_do_not_end_a_leader(shelf: Shelf, clock: Clock, lease: Lease) -> None:
    await lease.acquire()

    def edit() -> None:
        if clock.now % 6 == 0 and shelf.lease:
            shelf.store({**shelf.lease, "metadata": {"labels": {"edited": str(clock.now)}}})
        if clock.now > 1100:
            shelf.held_by("other")

    clock.meanwhile = edit
    assert "other" in await ended(lease)
    assert clock.now > 1100


@async_test(candidate)
async def test_a_deleted_lease_is_created_again(shelf: Shelf, clock: Clock, lease: Lease) -> None:
    await lease.acquire()

    def delete() -> None:
        if clock.now == 1010:
            shelf.lease = None
        if clock.now == 1020:
            assert shelf.holder == "me"
            shelf.held_by("other")

    clock.meanwhile = delete
    assert "other" in await ended(lease)


@async_test(candidate)
async def test_a_leader_that_released_its_lease_does_not_write(shelf: Shelf, clock: Clock, lease: Lease) -> None:
    await lease.acquire()
    await lease.release()
    assert shelf.holder == ""
    with pytest.raises(LeaseLost):
        lease.check()
    writes = shelf.writes
    await lease.release()
    assert shelf.writes == writes


@async_test(candidate, lease=40, lease_renewal=0.6, lease_retry=0.1)
async def test_a_renewal_that_hangs_ends_with_the_deadline(shelf: Shelf, *_: object) -> None:
    lease = Lease(shelf.client, "team", "leader", "me")
    begun = time.monotonic()
    await lease.acquire()
    shelf.server.otherwise = silence
    await ended(lease)
    assert 0.6 <= time.monotonic() - begun < 30


@async_test(candidate)
async def test_a_process_without_the_lease_sends_no_write(shelf: Shelf, clock: Clock, lease: Lease) -> None:
    shelf.client.before_write = lease.check
    await lease.acquire()
    clock.now += 9.9
    shelf.server.answers.append(reply({}))
    await shelf.client.delete(PODS, "team", "a")
    clock.now += 0.1
    with pytest.raises(LeaseLost):
        await shelf.client.delete(PODS, "team", "a")


@async_test(candidate, lease=40, lease_renewal=30, lease_retry=0.2)
async def test_the_second_process_leads_at_once_when_the_first_ends(shelf: Shelf, *_: object) -> None:
    first, second = (Lease(shelf.client, "team", "leader", name) for name in "ab")
    await first.acquire()
    holding = asyncio.create_task(first.hold())
    waiting = asyncio.create_task(second.acquire())
    await asyncio.sleep(0.7)
    assert (first.held, second.held, waiting.done()) == (True, False, False)
    holding.cancel()
    await first.release()
    await asyncio.wait_for(waiting, 30.0)
    assert (first.held, second.held, shelf.holder) == (False, True, "b")


def test_durations_that_would_allow_two_leaders_are_rejected() -> None:
    durations = lengths(lease=10, lease_renewal=10)
    with pytest.raises(ValueError, match="lease_renewal"):
        Lease(Client(Access("http://localhost"), durations=durations), "team", "leader", "me")
