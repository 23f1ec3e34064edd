"""A reflector continues after any bad line of a watch.

The cases are numbers, as in `test_bad_input.py`.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
import pytest
from aiohttp.web import Request, StreamResponse

from support import bad_input
from support.bad_cases import Cases
from support.kube.api_server import Answer, ApiServer, chunks, event, pod, pods, reply, silence
from tfjob.api.objects import Pod
from tfjob.api.resources import PODS
from tfjob.durations import Durations
from tfjob.kube.cache.decode import CHILD_TYPES, decode_node, decode_owner
from tfjob.kube.cache.reflector import Reflector
from tfjob.kube.cache.store import ObjectStore
from tfjob.kube.client.client import Client

pytestmark = pytest.mark.faults


@pytest.mark.timeout(3600)
def test_a_watch_continues_after_any_bad_line(cases: Cases) -> None:
    """Objects before and after invalid lines and objects reach the store, for every kind."""
    durations = Durations(
        first_watch_delay=timedelta(seconds=0.01),
        longest_watch_delay=timedelta(seconds=0.02),
        watch_short=timedelta(seconds=0.01),
        watch_pace=timedelta(0),
    )

    async def follow(numbers: range, decode: Callable[[bytes | msgspec.Raw], Any]) -> None:
        async with ApiServer() as server, Client(server.access(), durations=durations) as client:
            server.lists.extend([reply(pods(5, pod("before", 1)))] * len(numbers))
            server.watches.extend(odd_watch(number) for number in numbers)
            server.watches.append(chunks(event("ADDED", pod("after", 10**6)), silence))
            store = ObjectStore[Pod]()
            following = asyncio.create_task(Reflector(client, PODS, decode, store, "team").run())
            try:
                async with asyncio.timeout(60 + len(numbers) * 0.3):
                    while "after" not in {one.metadata.name for one in store.all()}:
                        await asyncio.sleep(0.02)
            finally:
                assert not following.done(), following
                following.cancel()
                await asyncio.wait((following,))

    decoders: list[Callable[[bytes | msgspec.Raw], Any]] = [
        partial(decode_owner, "TFJob"),
        decode_node,
        *(one.decode for one in CHILD_TYPES.values()),
    ]
    for first, decode in enumerate(decoders):
        asyncio.run(follow(cases.numbers[first :: len(decoders)], decode))


def odd_watch(number: int) -> Answer:
    """Return a watch that sends one bad line, made on request: all lines together would not fit in memory."""

    async def answer(request: Request) -> StreamResponse:
        return await chunks(line_of(number))(request)

    return answer


def line_of(number: int) -> bytes:
    """Return a watch event with a fault."""
    dice = random.Random(number)
    odd = dice.choice(bad_input.ODD)
    line = event(dice.choice(("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")), pod("odd", 6))
    whole = json.loads(line)
    match dice.randrange(7):
        case 0:
            return line[: dice.randrange(len(line))] + b"\n"
        case 1:
            return bad_input.written({"type": odd, "object": whole["object"]}) + b"\n"
        case 2:
            return bad_input.written({"type": whole["type"], "object": odd}) + b"\n"
        case 3:
            whole["object"][dice.choice(("metadata", "spec", "status"))] = odd
            return bad_input.written(whole) + b"\n"
        case 4:
            whole["object"]["spec"] = f"@nested {dice.choice((100, 900, 5000, 100_000))}@"
            return bad_input.written(whole) + b"\n"
        case 5:
            whole["object"]["metadata"]["annotations"] = {"big": "x" * dice.choice((1000, 1_000_000))}
            return json.dumps(whole).encode() + b"\n"
    return bytes(dice.randrange(256) for _ in range(40)) + b"\n"
