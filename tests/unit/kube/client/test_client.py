from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from aiohttp import web

from support.async_tests import async_test
from support.golden import Wording
from support.kube.api_server import ApiServer, abort, chunks, pod, pods, refuse, reply
from tfjob.api.objects import Pod
from tfjob.api.resources import NODES, PODS
from tfjob.api.types import TFJOBS
from tfjob.durations import Durations
from tfjob.kube.access.config import Access
from tfjob.kube.access.credentials import Credential
from tfjob.kube.access.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from tfjob.kube.client.client import Client
from tfjob.kube.cluster.lease import LeaseLost


@asynccontextmanager
async def served(credential: Credential | None = None) -> AsyncIterator[tuple[ApiServer, Client]]:
    async with ApiServer() as server, Client(server.access(credential)) as client:
        yield server, client


@async_test(served)
async def test_an_object_is_read_by_its_name(server: ApiServer, client: Client) -> None:
    server.answers.append(reply(pod("a", 1)))
    assert (await client.get(PODS, "team", "a"))["metadata"]["uid"] == "uid-a"
    assert server.asked() == ["GET /api/v1/namespaces/team/pods/a"]


@async_test(served)
async def test_a_list_is_read_in_pages_until_the_last(server: ApiServer, client: Client) -> None:
    server.lists += [reply(pods(7, pod("a", 1), continue_="more")), reply(pods(7, pod("b", 2)))]
    listing = await client.list(PODS, label_selector="a=b,c", field_selector="spec.nodeName=n", type=Pod)
    assert [item.metadata.name for item in listing.items] == ["a", "b"]
    assert listing.metadata.resource_version == "7"
    first, second = (seen.query for seen in server.seen)
    assert first == {"limit": "500", "labelSelector": "a=b,c", "fieldSelector": "spec.nodeName=n"}
    assert second == {**first, "continue": "more"}


@async_test(served)
async def test_a_list_whose_next_page_expired_is_read_again_at_once(server: ApiServer, client: Client) -> None:
    server.lists += [reply(pods(7, pod("a", 1), continue_="more")), refuse(410, "Expired")]
    server.answers += [reply(pods(9, pod("b", 2), pod("c", 3)))]
    listing = await client.list(PODS, "team", type=dict)
    assert [item["metadata"]["name"] for item in listing.items] == ["b", "c"]
    assert listing.metadata.resource_version == "9"


@async_test(served)
async def test_the_requests_of_writes(server: ApiServer, client: Client) -> None:
    server.answers += [reply({})] * 5
    await client.create(PODS, "team", Pod(), {"dryRun": "All"})
    await client.patch(TFJOBS, "team", "a", {"spec": {}})
    await client.patch(NODES, "", "n", [{"op": "remove", "path": "/x"}], "json")
    await client.patch(TFJOBS, "team", "a", {}, "apply", "status", {"force": "true"})
    await client.delete(PODS, "team", "a", uid="u", propagation="Foreground")
    sent = [(seen.method, seen.path, seen.query, seen.headers["Content-Type"], seen.body) for seen in server.seen]
    job, plain = "/apis/kubeflow.org/v1/namespaces/team/tfjobs/a", "application/json"
    assert sent[0][:4] == ("POST", "/api/v1/namespaces/team/pods", {"dryRun": "All"}, plain)
    assert sent[0][4]["kind"] == "Pod"
    assert sent[1:] == [
        ("PATCH", job, {}, "application/merge-patch+json", {"spec": {}}),
        ("PATCH", "/api/v1/nodes/n", {}, "application/json-patch+json", [{"op": "remove", "path": "/x"}]),
        ("PATCH", f"{job}/status", {"fieldManager": "tfjob", "force": "true"}, "application/apply-patch+yaml", {}),
        (
            "DELETE",
            "/api/v1/namespaces/team/pods/a",
            {},
            plain,
            {"preconditions": {"uid": "u"}, "propagationPolicy": "Foreground"},
        ),
    ]


@async_test(served)
async def test_a_name_that_is_missing_is_never_sent(server: ApiServer, client: Client) -> None:
    with pytest.raises(ValueError, match="name"):
        await client.delete(PODS, "team", "")
    assert server.seen == []


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [(404, "NotFound", NotFound), (409, "Conflict", Conflict), (409, "AlreadyExists", AlreadyExists)],
)
@async_test(served)
async def test_an_error_has_the_message_of_the_server(
    server: ApiServer, client: Client, *, code: int, reason: str, kind: type[ApiError]
) -> None:
    server.answers.append(refuse(code, reason))
    with pytest.raises(kind, match=f"it is {reason}"):
        await client.create(PODS, "team", {})
    assert len(server.seen) == 1


@async_test(served)
async def test_a_redirect_is_not_followed_with_our_credentials(server: ApiServer, client: Client) -> None:
    server.answers.append(reply(None, 302, Location="http://127.0.0.1:1/"))
    with pytest.raises(ApiError):
        await client.get(PODS, "team", "a")


@pytest.mark.parametrize(("code", "after"), [(429, {"Retry_After": "1"}), (503, {"Retry_After": "1"}), (429, {})])
@async_test(served)
async def test_a_write_waits_as_long_as_the_server_asks(
    server: ApiServer, client: Client, *, code: int, after: dict[str, str]
) -> None:
    """A 429 without a time means one second."""
    server.answers += [refuse(code, "Later", **after), reply({})]
    started = time.monotonic()
    await client.create(PODS, "team", {})
    assert 1.0 <= time.monotonic() - started < 30.0
    assert len(server.seen) == 2


@async_test(served)
async def test_a_write_does_not_wait_for_an_hour(server: ApiServer, client: Client) -> None:
    server.answers.append(refuse(429, "TooManyRequests", Retry_After="3600"))
    with pytest.raises(TooManyRequests) as raised:
        await client.create(PODS, "team", {})
    assert raised.value.retry_after == 3600


@async_test(served)
async def test_a_read_is_retried_after_errors_and_broken_connections(server: ApiServer, client: Client) -> None:
    server.answers += [refuse(500, "InternalError"), abort, abort, reply(pod("a", 1))]
    assert (await client.get(PODS, "team", "a"))["metadata"]["name"] == "a"


@async_test(served)
async def test_a_write_that_may_have_happened_is_not_repeated(server: ApiServer, client: Client) -> None:
    server.answers += [abort, refuse(500, "InternalError")]
    with pytest.raises(Unreachable):
        await client.create(PODS, "team", {})
    with pytest.raises(ApiError, match="InternalError"):
        await client.create(PODS, "team", {})
    assert len(server.seen) == 2


def test_an_unreachable_server_is_named_with_the_reason(wording: Wording) -> None:
    async def run(server: str) -> str:
        async with Client(Access(server, context="lab"), durations=Durations(read_retry=timedelta(0))) as client:
            with pytest.raises(Unreachable) as raised:
                await client.get(PODS, "team", "a")
            return str(raised.value)

    refused, unknown = asyncio.run(run("http://127.0.0.1:1")), asyncio.run(run("http://nowhere.invalid"))
    assert "http://127.0.0.1:1" in refused
    assert "http://nowhere.invalid" in unknown
    wording(refused, unknown)


@async_test(served)
async def test_the_fence_stops_a_write_and_lets_reads_and_the_lease_pass(server: ApiServer, client: Client) -> None:
    def closed() -> None:
        raise LeaseLost

    client.before_write = closed
    server.answers += [reply({}), reply({})]
    for write in (
        client.create(PODS, "team", {}),
        client.delete(PODS, "team", "a"),
        client.patch(PODS, "team", "a", {}),
    ):
        with pytest.raises(LeaseLost):
            await write
    await client.get(PODS, "team", "a")
    await client.request("PUT", "/lease", fenced=False)
    assert server.asked() == ["GET /api/v1/namespaces/team/pods/a", "PUT /lease"]


@async_test(served)
async def test_the_fence_is_checked_again_after_each_wait(server: ApiServer, client: Client) -> None:
    asked = []
    client.before_write = lambda: asked.append(1)
    server.answers += [refuse(429, "TooManyRequests", Retry_After="1"), reply({})]
    await client.create(PODS, "team", {})
    assert len(asked) == 2


@async_test(served)
async def test_every_attempt_is_observed(server: ApiServer, client: Client) -> None:
    observed: list[tuple[str, int]] = []
    client.observe = lambda method, code, seconds: observed.append((method, code))
    server.answers += [refuse(404, "NotFound"), abort, chunks(b"x")]
    with pytest.raises(NotFound):
        await client.delete(PODS, "team", "a")
    with pytest.raises(Unreachable):
        await client.create(PODS, "team", {})
    assert [part async for part in client.stream("/log")] == [b"x"]
    assert observed == [("DELETE", 404), ("POST", 0), ("GET", 200)]


class Rotating(Credential):
    """A token that changes with each renewal."""

    renewals = 0

    def header(self) -> str:
        return f"Bearer {self.renewals}"

    async def renew(self) -> None:
        self.renewals += 1


@async_test(served, Rotating())
async def test_a_rejected_token_is_replaced_once(server: ApiServer, client: Client) -> None:
    server.answers += [refuse(401, "Unauthorized"), reply({}), refuse(401, "Unauthorized")]
    await client.create(PODS, "team", {})
    assert [seen.headers["Authorization"] for seen in server.seen] == ["Bearer 0", "Bearer 1"]
    server.answers.append(refuse(401, "Unauthorized"))
    with pytest.raises(Unauthorized):
        await client.create(PODS, "team", {})
    assert len(server.seen) == 4


@async_test(served, Rotating())
async def test_concurrent_requests_share_one_new_token(server: ApiServer, client: Client) -> None:
    server.answers += [refuse(401, "Unauthorized")] * 3 + [reply({})] * 3
    await asyncio.gather(*(client.create(PODS, "team", {}) for _ in range(3)))
    shown = sorted(seen.headers["Authorization"] for seen in server.seen)
    assert shown == ["Bearer 0"] * 3 + ["Bearer 1"] * 3


@async_test(served, Rotating())
async def test_a_stream_also_replaces_a_rejected_token(server: ApiServer, client: Client) -> None:
    server.answers += [refuse(401, "Unauthorized"), chunks(b"x")]
    async with client.opened("/log") as parts:
        assert [part async for part in parts] == [b"x"]
    assert [seen.headers["Authorization"] for seen in server.seen] == ["Bearer 0", "Bearer 1"]


@async_test(served)
async def test_a_fixed_token_is_not_tried_twice(server: ApiServer, client: Client) -> None:
    server.answers.append(refuse(401, "Unauthorized"))
    with pytest.raises(Unauthorized):
        await client.create(PODS, "team", {})
    assert len(server.seen) == 1


@async_test(served)
async def test_a_stream_yields_data_as_it_arrives(server: ApiServer, client: Client) -> None:
    server.answers += [refuse(500, "InternalError"), chunks(b"one\n", 0.3, b"two\n")]
    parts = [part async for part in client.stream("/log", {"follow": "true"})]
    assert parts == [b"one\n", b"two\n"]


@async_test(served)
async def test_a_broken_stream_is_not_restarted(server: ApiServer, client: Client) -> None:
    server.answers.append(chunks(b"one\n", abort))
    stream = client.stream("/log")
    assert await anext(stream) == b"one\n"
    with pytest.raises(Unreachable):
        await anext(stream)
    assert len(server.seen) == 1


@async_test(served)
async def test_a_web_socket_carries_both_directions_in_the_newest_protocol(server: ApiServer, client: Client) -> None:
    async def echo(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io", "v5.channel.k8s.io"))
        await socket.prepare(request)
        async for message in socket:
            await socket.send_bytes(message.data)
        return socket

    server.answers.append(echo)
    async with client.websocket("/exec", [("command", "echo"), ("command", "a b")]) as socket:
        assert socket.protocol == "v5.channel.k8s.io"
        await socket.send_bytes(b"\x00hello")
        assert await socket.receive_bytes() == b"\x00hello"


@async_test(served)
async def test_a_rejected_web_socket_reports_the_reason(server: ApiServer, client: Client) -> None:
    server.answers += [refuse(404, "NotFound"), refuse(404, "NotFound")]
    with pytest.raises(NotFound, match="it is NotFound"):
        async with client.websocket("/exec"):
            pass


@async_test(served)
async def test_the_same_connection_serves_many_requests(server: ApiServer, client: Client) -> None:
    ports: set[Any] = set()

    async def answer(request: Any) -> Any:
        ports.add(request.transport.get_extra_info("peername"))
        return await reply({})(request)

    server.answers += [answer] * 20
    for _ in range(20):
        await client.create(PODS, "team", msgspec.json.encode({}))
    assert len(ports) == 1
