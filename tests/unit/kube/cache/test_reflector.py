"""A watch under every fault that was met in the field: the cache ends up right, and the server is not flooded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from support.kube.api_server import ApiServer, abort, chunks, event, pod, pods, refuse, reply, silence
from tfjob.api.objects import Pod
from tfjob.api.resources import PODS
from tfjob.durations import Durations
from tfjob.kube.cache.reflector import Reflector
from tfjob.kube.cache.store import ObjectStore
from tfjob.kube.client.client import Client

pytestmark = pytest.mark.faults

Test = Callable[[ApiServer, Reflector[Pod]], Awaitable[None]]
decode = msgspec.json.Decoder(Pod).decode


QUICK = Durations(
    first_watch_delay=timedelta(seconds=0.05),
    longest_watch_delay=timedelta(seconds=0.2),
    watch_short=timedelta(seconds=0.1),
    watch_idle=timedelta(seconds=3),
    watch_pace=timedelta(seconds=0.05),
)


def following(test: Test, durations: Durations = QUICK) -> None:
    async def run() -> None:
        async with ApiServer() as server, Client(server.access(), durations=durations) as client:
            reflector = Reflector(client, PODS, decode, ObjectStore[Pod](), "team", "app=x")
            task = asyncio.create_task(reflector.run())
            try:
                await asyncio.wait_for(test(server, reflector), timeout=20)
            finally:
                assert not task.done(), task
                task.cancel()
                await asyncio.wait((task,))

    asyncio.run(run())


async def until(condition: Callable[[], Any]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


async def most_asked(server: ApiServer) -> float:
    """Return how many requests a second come, measured for at least a second."""
    begun = time.monotonic()
    await asyncio.sleep(1.0)
    return len(server.seen) / (time.monotonic() - begun)


def shown(reflector: Reflector[Pod]) -> dict[str, str]:
    return {item.metadata.name: item.metadata.resource_version for item in reflector.store.all()}


def test_a_list_and_then_its_changes() -> None:
    async def test(server: ApiServer, reflector: Reflector[Pod]) -> None:
        server.lists += [reply(pods(5, pod("a", 1), continue_="more")), reply(pods(5, pod("b", 2)))]
        lines = event("ADDED", pod("c", 6)) + event("MODIFIED", pod("a", 7)) + event("DELETED", pod("b", 8))
        server.watches.append(chunks(lines, silence))
        await reflector.synced.wait()
        await until(lambda: shown(reflector) == {"a": "7", "c": "6"})
        assert server.asked() == ["LIST", "LIST", "WATCH@5"]
        query = server.seen[-1].query
        assert 300 <= int(query.pop("timeoutSeconds")) <= 600
        assert query == {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": "5", "labelSelector": "app=x"}

    following(test)


def test_1_a_stream_that_the_server_closes_goes_on_where_it_was() -> None:
    async def test(server: ApiServer, reflector: Reflector[Pod]) -> None:
        server.lists.append(reply(pods(5)))
        server.watches += [chunks(event("ADDED", pod("a", 6)), 0.2), chunks(event("ADDED", pod("b", 7)), silence)]
        await until(lambda: shown(reflector) == {"a": "6", "b": "7"})
        assert server.asked() == ["LIST", "WATCH@5", "WATCH@6"]
        assert reflector.restarts == {"closed": 1}

    following(test)


@pytest.mark.parametrize(
    "expiry",
    [
        chunks(event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})),
        refuse(410, "Expired"),
    ],
    ids=["event", "answer"],
)
def test_2_a_place_in_history_that_is_lost_means_a_new_list_and_what_went_is_noticed(expiry: Any) -> None:
    async def test(server: ApiServer, reflector: Reflector[Pod]) -> None:
        server.lists += [
            reply(pods(5, pod("kept", 1), pod("gone", 2))),
            reply(pods(90, pod("kept", 1), pod("new", 80))),
        ]
        server.watches.append(expiry)
        await until(lambda: shown(reflector) == {"kept": "1", "new": "80"})
        await until(lambda: len(server.seen) == 4)
        assert server.asked() == ["LIST", "WATCH@5", "LIST", "WATCH@90"]
        assert reflector.restarts == {"expired": 1}

    following(test)


def test_2_each_list_is_told_when_the_store_holds_it() -> None:
    async def test(server: ApiServer, reflector: Reflector[Pod]) -> None:
        told: list[tuple[str, dict[str, str]]] = []
        reflector.on_listed = lambda version: told.append((version, shown(reflector)))
        server.lists += [reply(pods(5, pod("a", 1))), reply(pods(90, pod("b", 80)))]
        server.watches.append(refuse(410, "Expired"))
        await until(lambda: len(server.seen) == 4)
        assert told == [("5", {"a": "1"}), ("90", {"b": "80"})]

    following(test)


def test_2_a_server_that_always_answers_410_is_not_flooded() -> None:
    async def test(server: ApiServer, reflector: Reflector[Pod]) -> None:
        server.lists += [reply(pods(5))] * 1000
        server.watches += [refuse(410, "Expired")] * 1000
        assert await most_asked(server) <= 30
        await until(lambda: len(server.seen) >= 4)

    following(test)


def test_3_a_bookmark_moves_the_place_in_history() -> None:
    async def test(server: ApiServer, reflector: Reflector[Pod]) -> None:
        server.lists.append(reply(pods(5)))
        bookmark = {"kind": "Pod", "metadata": {"resourceVersion": "77"}, "spec": {"containers": None}, "status": {}}
        server.watches.append(chunks(event("BOOKMARK", bookmark), 0.2))
        await until(lambda: len(server.seen) == 3)
        assert server.asked() == ["LIST", "WATCH@5", "WATCH@77"]
        assert shown(reflector) == {}

    following(test)


def test_4_connections_that_break_at_once_are_tried_again() -> None:
    async def test(server: ApiServer, reflector: Reflector[Pod]) -> None:
        server.lists.append(reply(pods(5)))
        # aiohttp itself repeats a request once on a connection that was kept open
        server.watches += [abort, abort, abort, chunks(event("ADDED", pod("a", 6)), silence)]
        await until(lambda: shown(reflector) == {"a": "6"})
        assert set(server.asked()[1:]) == {"WATCH@5"}

    following(test)


@pytest.mark.parametrize("code", [500, 503, 504, 429])
def test_5_refusals_that_pass_are_tried_again_from_the_same_place(code: int) -> None:
    async def test(server: ApiServer, reflector: Reflector[Pod]) -> None:
        server.lists.append(reply(pods(5)))
        server.watches += [refuse(code, "Busy"), refuse(code, "Busy"), chunks(event("ADDED", pod("a", 6)), silence)]
        await until(lambda: shown(reflector) == {"a": "6"})
        assert server.asked() == ["LIST", "WATCH@5", "WATCH@5", "WATCH@5"]

    following(test)


def test_5_a_server_that_asks_to_wait_is_given_that_time() -> None:
    async def test(server: ApiServer, reflector: Reflector[Pod]) -> None:
        server.lists.append(reply(pods(5)))
        server.watches += [
            refuse(429, "TooManyRequests", Retry_After="1"),
            chunks(event("ADDED", pod("a", 6)), silence),
        ]
        started = time.monotonic()
        await until(lambda: shown(reflector) == {"a": "6"})
        assert time.monotonic() - started >= 1.0

    following(test)


def test_6_a_stream_that_breaks_goes_on_after_the_last_whole_event() -> None:
    async def test(server: ApiServer, reflector: Reflector[Pod]) -> None:
        server.lists.append(reply(pods(5)))
        half = event("ADDED", pod("half", 7))[:40]
        server.watches += [chunks(event("ADDED", pod("a", 6)) + half, 0.2, abort), chunks(silence)]
        await until(lambda: len(server.seen) == 3)
        assert server.asked() == ["LIST", "WATCH@5", "WATCH@6"]
        assert shown(reflector) == {"a": "6"}
        assert reflector.restarts == {"broken": 1}

    following(test)


@pytest.mark.parametrize("size", [1_400_000, 9_000_000])
def test_7_an_event_of_any_size_arrives(size: int) -> None:
    async def test(server: ApiServer, reflector: Reflector[Pod]) -> None:
        server.lists.append(reply(pods(5)))
        large = event("ADDED", pod("large", 6, status={"message": "x" * size}))
        server.watches.append(chunks(large[:10], large[10:] + event("ADDED", pod("next", 7)), silence))
        await until(lambda: shown(reflector) == {"large": "6", "next": "7"})
        assert reflector.restarts == {}

    following(test)


@pytest.mark.parametrize("stall", [silence, chunks(event("ADDED", pod("a", 6)), silence)], ids=["at once", "later"])
def test_8_a_connection_that_went_silent_is_left(stall: Any) -> None:
    async def test(server: ApiServer, reflector: Reflector[Pod]) -> None:
        server.lists.append(reply(pods(5)))
        server.watches += [stall, chunks(event("ADDED", pod("a", 6)), event("ADDED", pod("b", 7)), silence)]
        await until(lambda: shown(reflector) == {"a": "6", "b": "7"})
        assert sum(reflector.restarts.values()) == 1

    following(test)


def test_a_server_that_closes_every_watch_at_once_is_not_flooded() -> None:
    async def test(server: ApiServer, reflector: Reflector[Pod]) -> None:
        server.lists.append(reply(pods(5)))
        server.watches += [chunks()] * 1000
        assert await most_asked(server) <= 20
        await until(lambda: len(server.seen) >= 4)

    following(test)


def test_a_server_that_closes_every_watch_after_a_bookmark_is_not_flooded() -> None:
    async def test(server: ApiServer, reflector: Reflector[Pod]) -> None:
        server.lists.append(reply(pods(5)))
        bookmark = event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "5"}})
        server.watches += [chunks(bookmark)] * 1000
        assert await most_asked(server) <= 22
        await until(lambda: len(server.seen) >= 4)

    following(test)


def test_a_watch_that_is_closed_after_its_events_goes_on_at_once() -> None:
    async def test(server: ApiServer, reflector: Reflector[Pod]) -> None:
        server.lists.append(reply(pods(5)))
        server.watches += [chunks(event("ADDED", pod(f"p{version}", version))) for version in range(6, 56)]
        await until(lambda: len(reflector.store) == 50)
        assert reflector.restarts["closed"] >= 49

    minute = timedelta(minutes=1)
    following(test, replace(QUICK, first_watch_delay=minute, longest_watch_delay=minute))


def test_a_kind_that_is_not_installed_yet_is_followed_once_it_is() -> None:
    async def test(server: ApiServer, reflector: Reflector[Pod]) -> None:
        server.lists += [refuse(404, "NotFound"), refuse(403, "Forbidden"), reply(pods(5, pod("a", 1)))]
        await reflector.synced.wait()
        assert shown(reflector) == {"a": "1"}

    following(test)


def test_an_error_that_is_no_expiry_means_a_new_list_too() -> None:
    async def test(server: ApiServer, reflector: Reflector[Pod]) -> None:
        server.lists += [reply(pods(5)), reply(pods(9, pod("a", 8)))]
        server.watches.append(chunks(event("ERROR", {"kind": "Status", "code": 500, "message": "cannot decode"})))
        await until(lambda: shown(reflector) == {"a": "8"})

    following(test)


def test_a_line_that_is_no_event_begins_the_watch_again_after_the_last_good_one() -> None:
    async def test(server: ApiServer, reflector: Reflector[Pod]) -> None:
        server.lists.append(reply(pods(5)))
        server.watches.append(chunks(event("ADDED", pod("a", 6)) + b"<html>\n", silence))
        await until(lambda: server.asked() == ["LIST", "WATCH@5", "WATCH@6"])

    following(test)


def test_a_list_whose_pages_expire_is_read_again_whole() -> None:
    async def test(server: ApiServer, reflector: Reflector[Pod]) -> None:
        server.lists += [reply(pods(5, pod("old", 1), continue_="more")), refuse(410, "Expired")]
        server.answers.append(reply(pods(9, pod("a", 8))))
        await reflector.synced.wait()
        assert shown(reflector) == {"a": "8"}

    following(test)


def test_an_object_that_cannot_be_decoded_is_reported_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def test(server: ApiServer, reflector: Reflector[Pod]) -> None:
        odd = {"phase": 5}
        server.lists += [reply(pods(5, pod("a", 1), pod("odd", 2, status=odd)))]
        lines = event("MODIFIED", pod("a", 6, status=odd)) + event("ADDED", pod("b", 7))
        lines += event("DELETED", pod("b", 8, status=odd))
        server.watches.append(chunks(lines, 0.2))
        await until(lambda: len(server.seen) == 3)
        assert shown(reflector) == {"a": "1"}
        assert server.asked() == ["LIST", "WATCH@5", "WATCH@8"]
        reported = [text for text in caplog.messages if text.startswith("cannot decode Pod ")]
        assert [text.split(":")[0].split()[-1] for text in reported] == ["team/odd", "team/a", "team/b"]
        assert "$.status.phase" in reported[0]

    following(test)


def test_an_object_that_is_nested_deeper_than_a_stack_stops_nothing() -> None:
    """One such object, which any user may make, must not end the operator."""
    deep = b"[" * 9_000 + b"]" * 9_000

    def nested(encoded: bytes) -> bytes:
        return encoded.replace(b'"labels":', b'"deep":' + deep + b',"labels":')

    async def test(server: ApiServer, reflector: Reflector[Pod]) -> None:
        listed = msgspec.json.encode(pods(5, labelled("a", 1), labelled("b", 2)))
        server.lists.append(chunks(nested(listed)))
        lines = nested(event("ADDED", labelled("c", 6))) + event("ADDED", pod("d", 7))
        server.watches.append(chunks(lines, silence))
        await until(lambda: shown(reflector) == {"a": "1", "b": "2", "c": "6", "d": "7"})
        assert server.asked() == ["LIST", "WATCH@5"]

    def labelled(name: str, version: int) -> dict[str, Any]:
        made = pod(name, version)
        return {**made, "metadata": {**made["metadata"], "labels": {}}}

    following(test)


def test_the_server_may_be_gone_for_a_while() -> None:
    async def test(server: ApiServer, reflector: Reflector[Pod]) -> None:
        server.lists.append(reply(pods(5)))
        server.watches += [chunks(0.2, abort), chunks(event("ADDED", pod("a", 6)), silence)]
        await reflector.synced.wait()
        await server.stop_listening()
        await until(lambda: reflector.restarts.get("unreachable", 0) >= 2)
        assert reflector.idle < reflector.last_event_age
        await server.listen()
        await until(lambda: shown(reflector) == {"a": "6"})

    following(test)
