"""Forward ports of this machine to the TensorBoards of jobs on a cluster.

Each TensorBoard runs where the volumes of its job are, so none of them could show the curves of all jobs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial

import msgspec

from tfjob.api.names import tensorboard_name
from tfjob.api.objects import Pod
from tfjob.api.resources import PODS
from tfjob.api.types import TFJob
from tfjob.jobs.backend import Board
from tfjob.jobs.port_forward import LOCALHOST, Forward, PortPair, Target
from tfjob.kube.access.errors import KubeError
from tfjob.kube.client.client import Client
from tfjob.kube.jobs.port_forward import connect
from tfjob.plan.build.tensorboard import PORT, labels

logger = logging.getLogger(__name__)

STEP_SECONDS = 0.5


class NotReady(KubeError):
    """No pod of the TensorBoard can answer."""


async def show(
    client: Client, jobs: Mapping[str, TFJob], port: int | None, ready: Callable[[Sequence[Board]], None]
) -> None:
    """Forward a port to the TensorBoard of each job until cancelled. Raises NotReady if one is not ready in time."""
    if port and len(jobs) > 1:
        hint = "Omit --port, or show one job at a time."
        raise KubeError(f"port {port} can serve one TensorBoard only, but each of these jobs has its own", hint)
    async with AsyncExitStack() as forwards:
        boards = [await _forward(client, name, job, port, forwards) for name, job in jobs.items()]
        ready(boards)
        await asyncio.get_running_loop().create_future()


async def _forward(client: Client, name: str, job: TFJob, port: int | None, forwards: AsyncExitStack) -> Board:
    assert job.spec.tensor_board is not None
    deadline = time.monotonic() + client.durations.board_ready.total_seconds()
    while (why := _why_not_ready(job, await _pods(client, job))) and time.monotonic() < deadline:
        await asyncio.sleep(STEP_SECONDS)
    if why:
        raise NotReady(
            why, f"For details: kubectl -n {job.metadata.namespace} describe deployment {tensorboard_name(job)}"
        )

    target = Target(f"TensorBoard {tensorboard_name(job)}", partial(_pods, client, job))
    server = await _listen(Forward(partial(connect, client), target, logger.warning), port)
    forwards.callback(server.close)  # do not wait: an open page keeps sending requests
    url = f"http://{LOCALHOST}:{server.sockets[0].getsockname()[1]}/"
    return Board(name, url, job.spec.tensor_board.log_dir, await _is_empty(url, client.durations.board_events))


async def _listen(forward: Forward, port: int | None) -> asyncio.Server:
    """Listen at the requested port; without a request, at the usual one or, if that is taken, at any."""
    try:
        return await forward.listen(LOCALHOST, PortPair(PORT if port is None else port, str(PORT)))
    except OSError as error:
        if port is None:
            return await forward.listen(LOCALHOST, PortPair(0, str(PORT)))
        why = error.strerror or str(error)
        raise KubeError(f"cannot listen on port {port}: {why}", "Choose another port, or omit --port.") from None


async def _pods(client: Client, job: TFJob) -> list[Pod]:
    selector = ",".join(f"{name}={value}" for name, value in labels(job).items())
    return (await client.list(PODS, job.metadata.namespace, label_selector=selector, type=Pod)).items


def _why_not_ready(job: TFJob, pods: list[Pod]) -> str:
    """Return what a TensorBoard waits for; empty if it is ready."""
    if any(pod.is_ready for pod in pods):
        return ""
    obstacles = [reason for pod in pods for reason in pod.obstacles]
    state = ": ".join(["is not ready", *obstacles[:1]]) if pods else "has no pod"
    return f"TensorBoard {tensorboard_name(job)} {state}"


async def _is_empty(url: str, patience: timedelta) -> bool:
    """Return whether TensorBoard finds no event file; the first one may take a moment."""
    import aiohttp

    deadline = time.monotonic() + patience.total_seconds()
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(f"{url}data/runs") as answer:
                    if msgspec.json.decode(await answer.read()):
                        return False
            except (aiohttp.ClientError, msgspec.DecodeError):
                return False  # unknown; the browser will show it
            if time.monotonic() > deadline:
                return True
            await asyncio.sleep(STEP_SECONDS)
