"""Measure an operator in a cluster full of finished jobs: its start, its latency, its idle CPU, and memory per job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from bench.load import AT_ONCE, manifest, percentile
from tfjob.api.resources import NAMESPACES, PODS
from tfjob.api.types import TFJOBS
from tfjob.kube.access import config
from tfjob.kube.cache.decode import decode_pod
from tfjob.kube.cache.reflector import Reflector
from tfjob.kube.cache.store import ObjectStore
from tfjob.kube.client.client import Client

NAMESPACE = "finished"
NEW_JOBS = 50
IDLE_SECONDS = 20.0
ENDED = "2026-01-01T00:00:00Z"


def finished_jobs(kubeconfig: Path, count: int, operating: Callable[[Path], AbstractContextManager[Any]]) -> None:
    """Fill a cluster and print the figures of an operator in it."""
    with operating(kubeconfig) as without_jobs:
        baseline = without_jobs.memory("VmRSS")
    asyncio.run(_fill(kubeconfig, count))
    begun = time.perf_counter()
    with operating(kubeconfig) as operator:
        started = time.perf_counter() - begun
        time.sleep(5)  # until each job had its first pass
        memory = operator.memory("VmRSS")
        latencies = asyncio.run(_new_jobs(kubeconfig))
        time.sleep(3)
        cpu, since = operator.cpu(), time.perf_counter()
        time.sleep(IDLE_SECONDS)
        idle = (operator.cpu() - cpu) / (time.perf_counter() - since)
    print(f"{count} finished jobs: start to synced {started:.1f} s, idle {idle:.2%} of a core")
    print(f"  pods of a new job p50 {percentile(latencies, 0.5):.3f} s, p99 {percentile(latencies, 0.99):.3f} s")
    each = (memory - baseline) * 1024 / count
    print(f"  RSS {memory:.0f} MiB, without jobs {baseline:.0f} MiB: {each:.1f} KiB per finished job")


async def _fill(kubeconfig: Path, count: int) -> None:
    """Create jobs that ended long ago, as an operator leaves them."""
    condition = {"type": "Succeeded", "status": "True", "reason": "TFJobSucceeded", "message": "done"}
    times = {"lastUpdateTime": ENDED, "lastTransitionTime": ENDED}
    status = {
        "state": "Succeeded",
        "reason": "TFJobSucceeded",
        "attempt": 1,
        "startTime": ENDED,
        "completionTime": ENDED,
        "conditions": [{**condition, **times}],
        "replicaStatuses": {"Chief": {"succeeded": 1}, "Worker": {"succeeded": 2}, "PS": {}},
    }
    numbers = iter(range(count))
    async with Client(config.load(environ={"KUBECONFIG": str(kubeconfig)})) as client:
        await client.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})

        async def make_some() -> None:
            for number in numbers:
                name = f"old-{number:05d}"
                await client.create(TFJOBS, NAMESPACE, manifest(name, NAMESPACE))
                await client.patch(TFJOBS, NAMESPACE, name, {"status": status}, subresource="status")

        await asyncio.gather(*(make_some() for _ in range(AT_ONCE)))


async def _new_jobs(kubeconfig: Path) -> list[float]:
    """Return the seconds from the creation of a job to one of its pods, one job after the other."""
    async with Client(config.load(environ={"KUBECONFIG": str(kubeconfig)})) as client:
        seen: dict[str, asyncio.Event] = {}

        def changed(before: Any, after: Any) -> None:
            if after is not None:
                seen.setdefault(after.metadata.name, asyncio.Event()).set()

        watch = Reflector(client, PODS, decode_pod, ObjectStore(on_change=changed), NAMESPACE)
        task = asyncio.create_task(watch.run())
        await watch.synced.wait()
        latencies = []
        for number in range(NEW_JOBS):
            name = f"new-{number:03d}"
            begun = time.perf_counter()
            await client.create(TFJOBS, NAMESPACE, manifest(name, NAMESPACE))
            async with asyncio.timeout(30):
                await seen.setdefault(f"{name}-worker-1", asyncio.Event()).wait()
            latencies.append(time.perf_counter() - begun)
            await asyncio.sleep(0.05)
        task.cancel()
        return latencies
