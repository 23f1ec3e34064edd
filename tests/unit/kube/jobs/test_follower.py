"""What a follower waits for, and which lines it yields."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import msgspec
import pytest
from aiohttp import web

from support.kube.api_server import Answer, ApiServer, chunks, event, reply, silence
from support.plan.builders import job
from support.plan.builders import pod as pod_of
from tfjob.api.objects import OwnerReference
from tfjob.api.types import TFJob
from tfjob.kube.client.client import Client
from tfjob.kube.jobs.follower import Follower, wait_for_event

LINE = b"2026-01-02T03:04:05.000000001Z all is well\n"
REMOVED = b"unable to retrieve container logs for containerd://0123"


@pytest.mark.parametrize("moments", range(5))
def test_a_cancellation_at_the_moment_of_an_event_is_not_lost(moments: int) -> None:
    """A reader that misses the cancellation would read forever, and the command would never end."""

    async def read(event: asyncio.Event) -> None:
        await wait_for_event(event, 60)
        await wait_for_event(asyncio.Event(), 60)

    async def main() -> bool:
        event = asyncio.Event()
        reader = asyncio.create_task(read(event))
        await asyncio.sleep(0)
        event.set()
        for _ in range(moments):
            await asyncio.sleep(0)
        reader.cancel()
        await asyncio.wait({reader}, timeout=60)
        return reader.cancelled()

    assert asyncio.run(main())


def test_an_event_or_the_timeout_ends_the_wait() -> None:
    async def main() -> None:
        event = asyncio.Event()
        await wait_for_event(event, 0.01)
        event.set()
        await wait_for_event(event, 60)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("leaves", "logs", "told"),
    [
        pytest.param(True, [LINE, REMOVED], ["all is well"], id="a log that was read, of a terminating pod"),
        pytest.param(
            False, [LINE, REMOVED], ["all is well", f"[{REMOVED.decode()}]"], id="a log that was read, of a running pod"
        ),
        pytest.param(True, [REMOVED], [f"[{REMOVED.decode()}]"], id="a log that was not read"),
    ],
)
def test_a_missing_log_is_reported_if_lines_were_missed(leaves: bool, logs: list[bytes], told: list[str]) -> None:
    """The pods of a finished job are removed; the kubelet's message about that is not part of their logs."""
    owner = job(worker=1)
    built = pod_of(owner, "worker-0").running()
    pod = document(built.deleting().pod if leaves else built.pod)
    pod["metadata"] |= {"ownerReferences": [msgspec.to_builtins(OwnerReference(uid=owner.metadata.uid))]}
    left = deque(logs)
    read_all = asyncio.Event()

    def serve(request: web.Request) -> Answer:
        if request.path.endswith("/log"):
            if len(left) == 1:
                read_all.set()
            return chunks(left.popleft()) if left else chunks()
        kind, item = ("TFJob", document(owner)) if request.path.endswith("/tfjobs") else ("Pod", pod)
        if request.query.get("watch") != "1":
            return reply({"kind": f"{kind}List", "metadata": {"resourceVersion": "1"}, "items": [item]})
        return ends if kind == "TFJob" else silence

    async def ends(request: web.Request) -> web.StreamResponse:
        await read_all.wait()
        done = document(owner)
        done["status"] = {"conditions": [{"type": "Succeeded", "status": "True"}]}
        done["metadata"] = {**done["metadata"], "resourceVersion": "2"}
        return await chunks(0.3, event("MODIFIED", done), silence)(request)

    async def answer(request: web.Request) -> web.StreamResponse:
        return await serve(request)(request)

    assert followed(owner, answer) == told


def test_no_line_is_missed_if_the_watch_of_pods_lags_behind() -> None:
    owner = job(worker=1)
    owned = {"ownerReferences": [msgspec.to_builtins(OwnerReference(uid=owner.metadata.uid))]}
    ended = asyncio.Event()

    def pod_now() -> dict[str, Any]:
        built = pod_of(owner, "worker-0")
        found = document(built.exited(0).pod if ended.is_set() else built.pod)
        found["metadata"] |= {**owned, "resourceVersion": "2" if ended.is_set() else "1"}
        return found

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/log"):
            return await chunks(LINE)(request)
        is_job = request.path.endswith("/tfjobs")
        if request.query.get("watch") != "1":
            items = [document(owner) if is_job else pod_now()]
            return await reply({"metadata": {"resourceVersion": "1"}, "items": items})(request)
        if not is_job:
            return await silence(request)
        await asyncio.sleep(0.2)
        ended.set()
        done = document(owner)
        done["status"] = {"conditions": [{"type": "Succeeded", "status": "True"}]}
        done["metadata"] = {**done["metadata"], "resourceVersion": "2"}
        return await chunks(event("MODIFIED", done), silence)(request)

    assert followed(owner, answer) == ["all is well"]


def followed(owner: TFJob, answer: Answer) -> list[str]:
    """Return the lines that a follower yields until the job ends, from a server with these answers."""

    async def main() -> list[str]:
        async with (
            ApiServer(otherwise=answer) as server,
            Client(server.access()) as client,
            Follower(client, owner) as follower,
        ):
            return [line.text async for lines in follower.lines() for line, _ in lines]

    return asyncio.run(main())


def document(thing: Any) -> dict[str, Any]:
    """Return an object as an API server sends it."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(thing))
    found["metadata"].setdefault("resourceVersion", "1")
    return found
