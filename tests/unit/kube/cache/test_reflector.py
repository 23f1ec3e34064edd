"""A watch under every fault seen in practice: the cache ends up correct, and the server is not flooded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from support.async_tests import async_test
from support.kube.api_server import ApiServer, abort, chunks, event, pod, pods, refuse, reply, silence
from tfjob.api.objects import Pod
from tfjob.api.resources import PODS
from tfjob.durations import Durations
from tfjob.kube.cache.reflector import Reflector
from tfjob.kube.cache.store import ObjectStore
from tfjob.kube.client.client import Client

pytestmark = pytest.mark.faults

decode = msgspec.json.Decoder(Pod).decode


QUICK = Durations(
    first_watch_delay=timedelta(seconds=0.05),
    longest_watch_delay=timedelta(seconds=0.2),
    watch_short=timedelta(seconds=0.1),
    watch_idle=timedelta(seconds=3),
    watch_pace=timedelta(seconds=0.05),
)


@asynccontextmanager
async def following(durations: Durations = QUICK) -> AsyncIterator[tuple[ApiServer, Reflector[Pod]]]:
    async with ApiServer() as server, Client(server.access(), durations=durations) as client:
        reflector = Reflector(client, PODS, decode, ObjectStore[Pod](), "team", "app=x")
        task = asyncio.create_task(reflector.run())
        try:
            yield server, reflector
        finally:
            assert not task.done(), task
            task.cancel()
            await asyncio.wait((task,))


async def until(condition: Callable[[], Any]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


async def most_asked(server: ApiServer) -> float:
    """Return the number of requests per second, measured for at least a second."""
    begun = time.monotonic()
    await asyncio.sleep(1.0)
    return len(server.seen) / (time.monotonic() - begun)


def shown(reflector: Reflector[Pod]) -> dict[str, str]:
    return {item.metadata.name: item.metadata.resource_version for item in reflector.store.all()}


@async_test(following)
async def test_a_list_and_then_its_changes(server: ApiServer, reflector: Reflector[Pod]) -> None:
    server.lists += [reply(pods(5, pod("a", 1), continue_="more")), reply(pods(5, pod("b", 2)))]
    lines = event("ADDED", pod("c", 6)) + event("MODIFIED", pod("a", 7)) + event("DELETED", pod("b", 8))
    server.watches.append(chunks(lines, silence))
    await reflector.synced.wait()
    await until(lambda: shown(reflector) == {"a": "7", "c": "6"})
    assert server.asked() == ["LIST", "LIST", "WATCH@5"]
    query = server.seen[-1].query
    assert 300 <= int(query.pop("timeoutSeconds")) <= 600
    assert query == {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": "5", "labelSelector": "app=x"}


@async_test(following)
async def test_a_watch_that_the_server_closes_resumes_at_its_version(
    server: ApiServer, reflector: Reflector[Pod]
) -> None:
    server.lists.append(reply(pods(5)))
    server.watches += [chunks(event("ADDED", pod("a", 6)), 0.2), chunks(event("ADDED", pod("b", 7)), silence)]
    await until(lambda: shown(reflector) == {"a": "6", "b": "7"})
    assert server.asked() == ["LIST", "WATCH@5", "WATCH@6"]
    assert reflector.restarts == {"closed": 1}


@pytest.mark.parametrize(
    "expiry",
    [
        chunks(event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})),
        refuse(410, "Expired"),
    ],
    ids=["event", "answer"],
)
@async_test(following)
async def test_an_expired_version_means_a_new_list_that_shows_deletions(
    server: ApiServer, reflector: Reflector[Pod], *, expiry: Any
) -> None:
    server.lists += [
        reply(pods(5, pod("kept", 1), pod("gone", 2))),
        reply(pods(90, pod("kept", 1), pod("new", 80))),
    ]
    server.watches.append(expiry)
    await until(lambda: shown(reflector) == {"kept": "1", "new": "80"})
    await until(lambda: len(server.seen) == 4)
    assert server.asked() == ["LIST", "WATCH@5", "LIST", "WATCH@90"]
    assert reflector.restarts == {"expired": 1}


@async_test(following)
async def test_each_list_is_reported_when_the_store_holds_it(server: ApiServer, reflector: Reflector[Pod]) -> None:
    told: list[tuple[str, dict[str, str]]] = []
    reflector.on_listed = lambda version: told.append((version, shown(reflector)))
    server.lists += [reply(pods(5, pod("a", 1))), reply(pods(90, pod("b", 80)))]
    server.watches.append(refuse(410, "Expired"))
    await until(lambda: len(server.seen) == 4)
    assert told == [("5", {"a": "1"}), ("90", {"b": "80"})]


@async_test(following)
async def test_a_server_that_always_answers_410_is_not_flooded(server: ApiServer, reflector: Reflector[Pod]) -> None:
    server.lists += [reply(pods(5))] * 1000
    server.watches += [refuse(410, "Expired")] * 1000
    assert await most_asked(server) <= 30
    await until(lambda: len(server.seen) >= 4)


@async_test(following)
async def test_a_bookmark_advances_the_version(server: ApiServer, reflector: Reflector[Pod]) -> None:
    server.lists.append(reply(pods(5)))
    bookmark = {"kind": "Pod", "metadata": {"resourceVersion": "77"}, "spec": {"containers": None}, "status": {}}
    server.watches.append(chunks(event("BOOKMARK", bookmark), 0.2))
    await until(lambda: len(server.seen) == 3)
    assert server.asked() == ["LIST", "WATCH@5", "WATCH@77"]
    assert shown(reflector) == {}


@async_test(following)
async def test_connections_that_break_at_once_are_retried(server: ApiServer, reflector: Reflector[Pod]) -> None:
    server.lists.append(reply(pods(5)))
    # aiohttp itself repeats a request once on a connection that was kept open
    server.watches += [abort, abort, abort, chunks(event("ADDED", pod("a", 6)), silence)]
    await until(lambda: shown(reflector) == {"a": "6"})
    assert set(server.asked()[1:]) == {"WATCH@5"}


@pytest.mark.parametrize("code", [500, 503, 504, 429])
@async_test(following)
async def test_temporary_errors_are_retried_at_the_same_version(
    server: ApiServer, reflector: Reflector[Pod], *, code: int
) -> None:
    server.lists.append(reply(pods(5)))
    server.watches += [refuse(code, "Busy"), refuse(code, "Busy"), chunks(event("ADDED", pod("a", 6)), silence)]
    await until(lambda: shown(reflector) == {"a": "6"})
    assert server.asked() == ["LIST", "WATCH@5", "WATCH@5", "WATCH@5"]


@async_test(following)
async def test_a_server_that_asks_to_wait_gets_that_time(server: ApiServer, reflector: Reflector[Pod]) -> None:
    server.lists.append(reply(pods(5)))
    server.watches += [
        refuse(429, "TooManyRequests", Retry_After="1"),
        chunks(event("ADDED", pod("a", 6)), silence),
    ]
    started = time.monotonic()
    await until(lambda: shown(reflector) == {"a": "6"})
    assert time.monotonic() - started >= 1.0


@async_test(following)
async def test_a_broken_watch_resumes_after_the_last_whole_event(server: ApiServer, reflector: Reflector[Pod]) -> None:
    server.lists.append(reply(pods(5)))
    half = event("ADDED", pod("half", 7))[:40]
    server.watches += [chunks(event("ADDED", pod("a", 6)) + half, 0.2, abort), chunks(silence)]
    await until(lambda: len(server.seen) == 3)
    assert server.asked() == ["LIST", "WATCH@5", "WATCH@6"]
    assert shown(reflector) == {"a": "6"}
    assert reflector.restarts == {"broken": 1}


@pytest.mark.parametrize("size", [1_400_000, 9_000_000])
@async_test(following)
async def test_an_event_of_any_size_arrives(server: ApiServer, reflector: Reflector[Pod], *, size: int) -> None:
    server.lists.append(reply(pods(5)))
    large = event("ADDED", pod("large", 6, status={"message": "x" * size}))
    server.watches.append(chunks(large[:10], large[10:] + event("ADDED", pod("next", 7)), silence))
    await until(lambda: shown(reflector) == {"large": "6", "next": "7"})
    assert reflector.restarts == {}


@pytest.mark.parametrize("stall", [silence, chunks(event("ADDED", pod("a", 6)), silence)], ids=["at once", "later"])
@async_test(following)
async def test_a_silent_connection_is_replaced(server: ApiServer, reflector: Reflector[Pod], *, stall: Any) -> None:
    server.lists.append(reply(pods(5)))
    server.watches += [stall, chunks(event("ADDED", pod("a", 6)), event("ADDED", pod("b", 7)), silence)]
    await until(lambda: shown(reflector) == {"a": "6", "b": "7"})
    assert sum(reflector.restarts.values()) == 1


@async_test(following)
async def test_a_server_that_closes_watches_at_once_is_not_flooded(
    server: ApiServer, reflector: Reflector[Pod]
) -> None:
    server.lists.append(reply(pods(5)))
    server.watches += [chunks()] * 1000
    assert await most_asked(server) <= 20
    await until(lambda: len(server.seen) >= 4)


@async_test(following)
async def test_a_server_that_closes_idle_watches_is_not_flooded(server: ApiServer, reflector: Reflector[Pod]) -> None:
    server.lists.append(reply(pods(5)))
    bookmark = event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "5"}})
    server.watches += [chunks(bookmark)] * 1000
    assert await most_asked(server) <= 22
    await until(lambda: len(server.seen) >= 4)


@async_test(following, replace(QUICK, first_watch_delay=timedelta(minutes=1), longest_watch_delay=timedelta(minutes=1)))
async def test_a_watch_that_is_closed_after_events_resumes_at_once(
    server: ApiServer, reflector: Reflector[Pod]
) -> None:
    server.lists.append(reply(pods(5)))
    server.watches += [chunks(event("ADDED", pod(f"p{version}", version))) for version in range(6, 56)]
    await until(lambda: len(reflector.store) == 50)
    assert reflector.restarts["closed"] >= 49


@async_test(following)
async def test_a_kind_is_followed_once_it_is_installed(server: ApiServer, reflector: Reflector[Pod]) -> None:
    server.lists += [refuse(404, "NotFound"), refuse(403, "Forbidden"), reply(pods(5, pod("a", 1)))]
    await reflector.synced.wait()
    assert shown(reflector) == {"a": "1"}


@async_test(following)
async def test_any_error_event_means_a_new_list(server: ApiServer, reflector: Reflector[Pod]) -> None:
    server.lists += [reply(pods(5)), reply(pods(9, pod("a", 8)))]
    server.watches.append(chunks(event("ERROR", {"kind": "Status", "code": 500, "message": "cannot decode"})))
    await until(lambda: shown(reflector) == {"a": "8"})


@async_test(following)
async def test_a_garbled_line_restarts_the_watch(server: ApiServer, reflector: Reflector[Pod]) -> None:
    server.lists.append(reply(pods(5)))
    server.watches.append(chunks(event("ADDED", pod("a", 6)) + b"<html>\n", silence))
    await until(lambda: server.asked() == ["LIST", "WATCH@5", "WATCH@6"])


@async_test(following)
async def test_a_list_whose_pages_expire_is_read_again_whole(server: ApiServer, reflector: Reflector[Pod]) -> None:
    server.lists += [reply(pods(5, pod("old", 1), continue_="more")), refuse(410, "Expired")]
    server.answers.append(reply(pods(9, pod("a", 8))))
    await reflector.synced.wait()
    assert shown(reflector) == {"a": "8"}


@async_test(following)
async def test_an_undecodable_object_is_reported_and_skipped(
    server: ApiServer, reflector: Reflector[Pod], *, caplog: pytest.LogCaptureFixture
) -> None:
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


@async_test(following)
async def test_a_deeply_nested_object_does_not_end_the_watch(server: ApiServer, reflector: Reflector[Pod]) -> None:
    """Any user can create such an object; it must not end the operator."""
    deep = b"[" * 9_000 + b"]" * 9_000

    def nested(encoded: bytes) -> bytes:
        return encoded.replace(b'"labels":', b'"deep":' + deep + b',"labels":')

    def labelled(name: str, version: int) -> dict[str, Any]:
        made = pod(name, version)
        return {**made, "metadata": {**made["metadata"], "labels": {}}}

    listed = msgspec.json.encode(pods(5, labelled("a", 1), labelled("b", 2)))
    server.lists.append(chunks(nested(listed)))
    lines = nested(event("ADDED", labelled("c", 6))) + event("ADDED", pod("d", 7))
    server.watches.append(chunks(lines, silence))
    await until(lambda: shown(reflector) == {"a": "1", "b": "2", "c": "6", "d": "7"})
    assert server.asked() == ["LIST", "WATCH@5"]


@async_test(following)
async def test_the_server_may_be_gone_for_a_while(server: ApiServer, reflector: Reflector[Pod]) -> None:
    server.lists.append(reply(pods(5)))
    server.watches += [chunks(0.2, abort), chunks(event("ADDED", pod("a", 6)), silence)]
    await reflector.synced.wait()
    await server.stop_listening()
    await until(lambda: reflector.restarts.get("unreachable", 0) >= 2)
    assert reflector.idle < reflector.last_event_age
    await server.listen()
    await until(lambda: shown(reflector) == {"a": "6"})
