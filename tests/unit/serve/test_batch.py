"""Calls share a run when the engine is free again, and never wait for each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from support.async_tests import async_test
from support.serve.toy_models import HALF, ToyEngine
from tfjob.serve import call
from tfjob.serve.batch import LARGE, Queue
from tfjob.serve.config import Batching
from tfjob.serve.errors import Code, Status
from tfjob.serve.metrics import Metrics
from tfjob.serve.models import Version
from tfjob.serve.savedmodel import PREDICT, SavedModel, Signature, TensorSpec

DEFAULT = Batching()
FIXED = Signature("fixed", PREDICT, HALF.inputs, {"y": TensorSpec("y:0", "DT_FLOAT", (1,))})


@asynccontextmanager
async def a_queue(
    batching: Batching = DEFAULT, signature: Signature = HALF
) -> AsyncIterator[tuple[Queue, ToyEngine, Version]]:
    """A queue over a toy engine with a gate."""
    engine = ToyEngine()
    model = SavedModel(Path("/m/1"), ("serve",), "", {signature.name: signature}, 0)
    version = Version("m", 1, model, engine, batching)
    with ThreadPoolExecutor(8) as threads:
        try:
            yield Queue(version, signature, threads, Metrics()), engine, version
        finally:
            engine.gate.set()


def ask(
    queue: Queue, *numbers: float, signature: Signature = HALF, deadline: float | None = None
) -> asyncio.Task[dict[str, np.ndarray]]:
    one = call.predict(signature, {"x": np.array(numbers, np.float32)})
    return asyncio.create_task(queue.run(one, deadline))


async def arrived(engine: ToyEngine, count: int = 1) -> None:
    """Wait until so many more runs are at the gate."""
    for _ in range(count):
        assert await asyncio.to_thread(engine.waiting.acquire, timeout=60)


@async_test(a_queue)
async def test_a_lone_call_runs_at_once(queue: Queue, engine: ToyEngine, version: Version) -> None:
    assert (await ask(queue, 2, 4))["y"].tolist() == [1, 2]
    assert engine.runs == [2]


@async_test(a_queue)
async def test_calls_that_wait_share_a_run_and_get_their_own_rows(
    queue: Queue, engine: ToyEngine, version: Version
) -> None:
    engine.gate.clear()
    first = ask(queue, 1)
    await arrived(engine)
    others = [ask(queue, 2), ask(queue, 4, 6), ask(queue, 8)]
    await asyncio.sleep(0)
    engine.gate.set()
    results = await asyncio.gather(first, *others)
    assert [result["y"].tolist() for result in results] == [[0.5], [1], [2, 3], [4]]
    assert engine.runs == [1, 4]


@async_test(a_queue)
async def test_a_bad_call_fails_alone(queue: Queue, engine: ToyEngine, version: Version) -> None:
    engine.gate.clear()
    first = ask(queue, 1)
    await arrived(engine)
    others = [ask(queue, 2), ask(queue, -1), ask(queue, 8)]
    await asyncio.sleep(0)
    engine.gate.set()
    results = await asyncio.gather(first, *others, return_exceptions=True)
    assert isinstance(results[2], Status)
    assert [one["y"].tolist() for one in results if isinstance(one, dict)] == [[0.5], [1], [4]]
    assert engine.runs == [1, 3, 1, 1, 1]


@async_test(a_queue, Batching(max_batch_size=3))
async def test_a_batch_has_a_limit(queue: Queue, engine: ToyEngine, version: Version) -> None:
    engine.gate.clear()
    first = ask(queue, 1)
    await arrived(engine)
    others = [ask(queue, 2, 2), ask(queue, 2, 2), ask(queue, 2)]
    await asyncio.sleep(0)
    engine.gate.set()
    await asyncio.gather(first, *others)
    assert sorted(engine.runs) == [1, 2, 3]


@async_test(a_queue, Batching(threads=2))
async def test_large_calls_run_alone_next_to_each_other(queue: Queue, engine: ToyEngine, version: Version) -> None:
    engine.gate.clear()
    calls = [ask(queue, *[1] * LARGE) for _ in range(3)]
    await arrived(engine, 2)
    assert engine.runs == [LARGE, LARGE]
    engine.gate.set()
    await asyncio.gather(*calls)
    assert engine.runs == [LARGE] * 3


@async_test(a_queue, Batching(enabled=False))
async def test_without_batching_calls_run_next_to_each_other(queue: Queue, engine: ToyEngine, version: Version) -> None:
    engine.gate.clear()
    calls = [ask(queue, 1) for _ in range(3)]
    await arrived(engine, 3)
    engine.gate.set()
    await asyncio.gather(*calls)
    assert engine.runs == [1, 1, 1]


@async_test(a_queue, Batching(threads=2), FIXED)
async def test_a_signature_of_fixed_size_does_not_share_runs(queue: Queue, engine: ToyEngine, version: Version) -> None:
    calls = [ask(queue, 1, signature=FIXED) for _ in range(3)]
    await asyncio.gather(*calls)
    assert engine.runs == [1, 1, 1]


@async_test(a_queue, Batching(max_batch_size=4, sizes=(2, 4)))
async def test_allowed_sizes_are_filled_and_cut(queue: Queue, engine: ToyEngine, version: Version) -> None:
    assert (await ask(queue, 2, 4, 6))["y"].tolist() == [1, 2, 3]
    assert (await ask(queue, 8))["y"].tolist() == [4]
    assert engine.runs == [4, 2]
    with pytest.raises(Status, match="max_batch_size"):
        await ask(queue, *[1] * 5)


@async_test(a_queue, Batching(max_batch_size=2, max_enqueued_batches=1))
async def test_a_full_queue_is_unavailable(queue: Queue, engine: ToyEngine, version: Version) -> None:
    engine.gate.clear()
    running = ask(queue, 1)
    await arrived(engine)
    waiting = ask(queue, 1)
    too_many = ask(queue, 1, 1)
    with pytest.raises(Status) as caught:
        await too_many
    assert caught.value.code is Code.UNAVAILABLE
    engine.gate.set()
    assert len(await asyncio.gather(running, waiting)) == 2


@async_test(a_queue)
async def test_calls_of_clients_that_are_gone_do_not_run(queue: Queue, engine: ToyEngine, version: Version) -> None:
    engine.gate.clear()
    first = ask(queue, 1)
    await arrived(engine)
    gone, late, stays = ask(queue, 2), ask(queue, 4, deadline=asyncio.get_running_loop().time()), ask(queue, 6)
    await asyncio.sleep(0)
    gone.cancel()
    engine.gate.set()
    assert (await stays)["y"].tolist() == [3]
    with pytest.raises(Status) as caught:
        await late
    assert caught.value.code is Code.DEADLINE_EXCEEDED
    await first
    assert engine.runs == [1, 1]


@async_test(a_queue)
async def test_a_version_stays_open_while_an_abandoned_call_runs(
    queue: Queue, engine: ToyEngine, version: Version
) -> None:
    engine.gate.clear()
    running = ask(queue, 1)
    await arrived(engine)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not version.close_when_idle(0)
    closing = asyncio.create_task(asyncio.to_thread(version.close_when_idle, 60))
    engine.gate.set()
    assert await closing
    assert engine.is_closed


@async_test(a_queue)
async def test_a_bug_of_the_engine_reaches_the_caller(queue: Queue, engine: ToyEngine, version: Version) -> None:
    engine.is_closed = True
    with pytest.raises(AssertionError):
        await ask(queue, 1)
    engine.is_closed = False
    assert (await ask(queue, 2))["y"].tolist() == [1]
