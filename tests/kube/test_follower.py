"""What a follower waits for."""

from __future__ import annotations

import asyncio

import pytest

from tfjob.kube.follower import happens


@pytest.mark.parametrize("moments", range(5))
def test_who_is_cancelled_in_the_moment_of_an_event_is_cancelled(moments: int) -> None:
    """A reader that overlooks it would read for ever, and the command with it."""

    async def read(event: asyncio.Event) -> None:
        await happens(event, 60)
        await happens(asyncio.Event(), 60)

    async def main() -> bool:
        event = asyncio.Event()
        reader = asyncio.create_task(read(event))
        await asyncio.sleep(0)
        event.set()
        for _ in range(moments):
            await asyncio.sleep(0)
        reader.cancel()
        await asyncio.wait({reader}, timeout=5)
        return reader.cancelled()

    assert asyncio.run(main())


def test_an_event_or_the_end_of_the_time_ends_the_wait() -> None:
    async def main() -> None:
        event = asyncio.Event()
        await happens(event, 0.01)
        event.set()
        await happens(event, 60)

    asyncio.run(main())
