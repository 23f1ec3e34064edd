"""What an attached run on a cluster reports about its record on this machine."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from support.plan.builders import job
from tfjob.api.objects import ObjectMeta, Pod
from tfjob.jobs.backend import Line, Record
from tfjob.kube.jobs.backend import KubeBackend
from tfjob.launch.follow import FollowedJob
from tfjob.records.job_records import JobRecords
from tfjob.records.pods import ContainerRun

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def test_lines_that_the_record_lacks_are_reported_at_once_and_with_their_number(tmp_path: Path) -> None:
    client = SimpleNamespace(access=SimpleNamespace(context=""))
    backend = cast("KubeBackend", SimpleNamespace(client=client, records=JobRecords(tmp_path)))
    followed = FollowedJob(backend, Record(job(worker=1), "mnist", "Running", "", NOW))
    pod = Pod(metadata=ObjectMeta(name="mnist-worker-0", uid="aaaaaaaa-1"), spec={"containers": [{"name": "main"}]})
    run = ContainerRun(pod, "main", 0)
    log = run.folder(followed.folder) / "log"
    log.parent.mkdir(parents=True)
    log.symlink_to("/dev/full")

    def write(count: int) -> list[str]:
        followed.keep([(Line(NOW, "worker-0", "x" * 10_000), run) for _ in range(count)])
        told = list(followed.notices)
        followed.notices.clear()
        return told

    assert ["so far: 1)" in text for text in write(1)] == [True]
    assert write(1) == [], "not with every line"
    assert ["so far: 20)" in text for text in write(18)] == [True]
    assert len(followed.unkept()) == 20, "they are shown"
