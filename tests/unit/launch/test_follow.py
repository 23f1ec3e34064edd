"""What a command that is attached to a job on a cluster records, shows and reports."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import msgspec
from aiohttp import web
from msgspec.structs import replace

from support.kube.api_server import ApiServer, chunks, reply, silence
from support.plan.builders import job, pod
from tfjob.api.objects import ObjectMeta, OwnerReference, Pod
from tfjob.cli.terminal.lines import Display
from tfjob.jobs.backend import Line, Record
from tfjob.kube.client.client import Client
from tfjob.kube.jobs.backend import KubeBackend
from tfjob.kube.jobs.follower import Followed
from tfjob.launch.follow import FollowedJob
from tfjob.records.job_records import JobRecords
from tfjob.records.pods import ContainerRun

JOB = job(worker=1)
NOW = datetime(2026, 1, 2, tzinfo=UTC)
OWNER = replace(JOB, metadata=replace(JOB.metadata, namespace="team", uid="12345678-1"))


class Cluster:
    """One job with one pod, whose log grows; it answers as a kubelet does."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.asked: list[dict[str, str]] = []

    def write(self, *texts: str) -> None:
        for text in texts:
            self.lines.append(f"2026-01-02T03:04:{len(self.lines):02}.000000001Z {text}\n")

    async def answer(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        if request.path.endswith("/log"):
            self.asked.append(dict(query))
            lines = [line for line in self.lines if line[:20] >= query.get("sinceTime", "")[:19]]
            return await chunks("".join(lines[-int(query.get("tailLines", "1000")) :]).encode(), silence)(request)
        if query.get("watch") == "1":
            return await silence(request)
        kind = request.path.rpartition("/")[2]
        items = {"tfjobs": [document(OWNER)], "pods": [self._pod()]}.get(kind, [])
        return await reply({"metadata": {"resourceVersion": "1"}, "items": items})(request)

    def _pod(self) -> dict[str, Any]:
        found = document(pod(OWNER, "worker-0").running().pod)
        found["metadata"] |= {"ownerReferences": [msgspec.to_builtins(OwnerReference(uid=OWNER.metadata.uid))]}
        return found


def document(thing: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(thing))
    found["metadata"].setdefault("resourceVersion", "1")
    return found


def shown(cluster: Cluster, records: Path, until: str, tail: int | None) -> list[str]:
    """Attach to the job until a line is shown, and return the lines of its replica."""

    async def main() -> list[str]:
        async with ApiServer(otherwise=cluster.answer) as server, Client(server.access()) as client:
            backend = KubeBackend(client, "team", "", JobRecords(records))
            followed = FollowedJob(backend, backend.record(OWNER), tail)
            display, found = Display(followed), list[str]()
            following = asyncio.create_task(followed.follow(backend, lambda: None, measure=False))
            async with asyncio.timeout(60):
                while not any(until in line for line in found):
                    await asyncio.sleep(0.01)
                    found += map(click.unstyle, display.look())
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            found += map(click.unstyle, display.finish())
            return [line.partition("| ")[2] for line in found if "| " in line]

    return asyncio.run(main())


def recorded(records: Path) -> list[str]:
    (log,) = records.rglob("logs/*/*/log")
    return [line.split(" ", 3)[3] for line in log.read_text().splitlines()]


def test_a_first_attachment_begins_with_the_last_lines(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.write(*map(str, range(20)))
    assert shown(cluster, tmp_path, "| 19", tail=3) == ["17", "18", "19"]
    assert cluster.asked[0]["tailLines"] == "3"
    assert recorded(tmp_path) == ["17", "18", "19"]


def test_an_attached_run_begins_with_the_first_line(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.write(*map(str, range(20)))
    assert shown(cluster, tmp_path, "| 19", tail=None) == [str(number) for number in range(20)]


def test_a_later_attachment_adds_what_the_record_lacks(tmp_path: Path) -> None:
    """The last recorded lines are read again, because replicas deliver lines late, and are not recorded twice."""
    cluster = Cluster()
    cluster.write("begin", "same", "same")
    assert shown(cluster, tmp_path, "| same", tail=None)[:1] == ["begin"]
    cluster.write(*map(str, range(40)))
    assert shown(cluster, tmp_path, "| 39", tail=2) == ["same", "same", *map(str, range(40))]
    cluster.write("last")
    assert shown(cluster, tmp_path, "| last", tail=2) == ["38", "39", "last"]
    assert "sinceTime" in cluster.asked[-1]
    assert recorded(tmp_path) == ["begin", "same", "same", *map(str, range(40)), "last"]


def test_lines_that_the_record_lacks_are_reported_at_once_and_with_their_number(tmp_path: Path) -> None:
    client = SimpleNamespace(access=SimpleNamespace(context=""))
    backend = cast("KubeBackend", SimpleNamespace(client=client, records=JobRecords(tmp_path)))
    followed = FollowedJob(backend, Record(job(worker=1), "mnist", "Running", "", NOW), None)
    pod = Pod(metadata=ObjectMeta(name="mnist-worker-0", uid="aaaaaaaa-1"), spec={"containers": [{"name": "main"}]})
    run = ContainerRun(pod, "main", 0)
    log = run.folder(followed.folder) / "log"
    log.parent.mkdir(parents=True)
    log.symlink_to("/dev/full")

    def write(count: int) -> list[str]:
        followed.keep([Followed(Line(NOW, "worker-0", "x" * 10_000), run) for _ in range(count)])
        told = list(followed.notices)
        followed.notices.clear()
        return told

    assert ["so far: 1)" in text for text in write(1)] == [True]
    assert write(1) == [], "not with every line"
    assert ["so far: 20)" in text for text in write(18)] == [True]
    assert len(followed.unkept()) == 20, "they are shown"
