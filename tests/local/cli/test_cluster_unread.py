"""Long logs of a cluster: an attached run whose output is not read, and an interrupted or disconnected `logs -f`.

The API server has one job of one pod, whose log is longer than what may wait for a reader.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Any

import pytest
from aiohttp import web

from support.installed import Installed
from support.kube.api_server import ApiServer, reply, silence

CONTAINER = {"name": "tensorflow", "image": "x"}
SPEC = {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [CONTAINER]}}}}}
JOB = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "unread"}, "spec": SPEC}
NONE = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "none", "details": {"name": "unread"}}
PLACE = {"name": "unread", "namespace": "team"}
LINES = 100_000
LOG = b"".join(b"2026-01-02T03:04:05.%09dZ line %d %s\n" % (number, number, b"." * 80) for number in range(LINES))


def pod() -> dict[str, Any]:
    """The only pod; it runs forever."""
    state = {"running": {"startedAt": "2026-01-02T03:04:05Z"}}
    labels = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "0"}
    return {
        "metadata": {
            "name": "unread-worker-0",
            "namespace": "team",
            "uid": "2",
            "resourceVersion": "1",
            "labels": labels,
            "ownerReferences": [{"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "unread", "uid": "1"}],
        },
        "spec": {"containers": [CONTAINER]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "tensorflow", "state": state}]},
    }


async def answer(request: web.Request) -> web.StreamResponse:
    """Answer like a cluster, as far as an attached run needs it."""
    if request.method == "POST":
        made = await request.json()
        return web.json_response({**made, "metadata": {**made["metadata"], "uid": "1", "resourceVersion": "1"}})
    if request.path.endswith("/log"):
        stream = web.StreamResponse()
        await stream.prepare(request)
        await stream.write(LOG)
        return await silence(request)
    if "watch" in request.query:
        await web.StreamResponse().prepare(request)
        return await silence(request)
    listed = {"pods": [pod()], "tfjobs": [{**JOB, "metadata": {"uid": "1", "resourceVersion": "1", **PLACE}}]}
    if (kind := request.path.rpartition("/")[2]) in listed:
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": listed[kind]})
    return await reply(NONE, 404)(request)


@asynccontextmanager
async def started(tool: Installed, folder: Path, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A command with `--on k8s` that reads the job from stdin."""
    async with ApiServer(otherwise=answer) as server:
        process = await asyncio.create_subprocess_exec(
            *tool.command,
            *(*words, "--on", "k8s", "-n", "team"),
            env={**tool.environment(folder / "home"), "KUBECONFIG": str(server.kubeconfig(folder))},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=2**10,  # we take nothing that we do not ask for
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(JOB).encode())
        process.stdin.close()
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()


@asynccontextmanager
async def attached(tool: Installed, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """An attached run that has recorded everything, and whose output is not read."""
    async with started(tool, folder, "run", "-") as process:
        await until(lambda: kept(folder / "home") == LINES)
        yield process


def kept(home: Path) -> int:
    """How many lines are in the record."""
    return sum(file.read_bytes().count(b"\n") for file in home.glob("clusters/*/*/*/pods/*/logs/*/*/log*"))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(180):
        while not holds():
            await asyncio.sleep(0.1)


async def all_lines(process: asyncio.subprocess.Process) -> bytes:
    """Return what a command prints up to the last line of the log."""
    assert process.stdout is not None
    shown = b""
    async with asyncio.timeout(180):
        while not shown.endswith(b"\n") or b"line %d " % (LINES - 1) not in shown[-1000:]:
            shown += await process.stdout.read(2**16)
    return shown


@pytest.mark.timeout(500)
def test_what_nobody_reads_yet_is_kept_and_shown_when_somebody_does(tool: Installed, tmp_path: Path) -> None:
    async def main() -> list[bytes]:
        async with attached(tool, tmp_path) as process:
            return (await all_lines(process)).splitlines()

    shown = [line for line in asyncio.run(main()) if b" | line " in line]
    assert [int(line.split()[3]) for line in shown] == list(range(LINES))


@pytest.mark.timeout(500)
def test_one_signal_detaches_from_a_job_whose_output_nobody_reads(tool: Installed, tmp_path: Path) -> None:
    async def main() -> int | None:
        async with attached(tool, tmp_path) as process:
            process.send_signal(SIGTERM)
            await until(lambda: process.returncode is not None)
            return process.returncode

    assert asyncio.run(main()) == 130


@pytest.mark.timeout(500)
def test_ctrl_c_ends_a_follower_that_waits_for_more(tool: Installed, tmp_path: Path) -> None:
    async def main() -> int | None:
        async with started(tool, tmp_path, "logs", "unread", "-f") as process:
            await all_lines(process)
            process.send_signal(SIGINT)
            await until(lambda: process.returncode is not None)
            return process.returncode

    assert asyncio.run(main()) == 130


@pytest.mark.timeout(500)
def test_a_follower_ends_when_its_reader_is_gone(tool: Installed, tmp_path: Path) -> None:
    """As with `| head`."""

    async def main() -> int | None:
        async with started(tool, tmp_path, "logs", "unread", "-f") as process:
            assert process.stdout is not None
            await process.stdout.readline()
            process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]
            await until(lambda: process.returncode is not None)
            return process.returncode

    assert asyncio.run(main()) == 0
